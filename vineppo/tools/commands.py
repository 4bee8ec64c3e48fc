"""The tools' commands and options; a tool is imported when its command runs."""

import argparse
from pathlib import Path
from typing import Any

from vineppo.run_command import add_run_options, add_set, run_config


def add_tools(commands: Any) -> None:
    """`commands` are the subparsers of `vineppo`."""
    command = commands.add_parser(
        "reward-model", help="train a reward model on preference pairs, from a config"
    )
    add_run_options(command)
    command.set_defaults(run=run_reward_model)
    command = commands.add_parser("sweep", help="execute the runs that a jsonnet file lists")
    command.add_argument("sweep", metavar="SWEEP.jsonnet")
    command.add_argument("--runs-dir", type=Path, help="default: runs/NAME of the sweep's file")
    command.add_argument("--list", action="store_true", help="print how far every run is and stop")
    command.add_argument("--index", type=int, metavar="N", help="the run number N alone, from 0")
    add_set(command)
    command.set_defaults(run=run_sweep)
    command = commands.add_parser("estimate", help="estimate the memory and time of configs")
    command.add_argument("configs", nargs="+", metavar="CONFIG.jsonnet")
    add_set(command)
    add_assumptions(command)
    command.set_defaults(run=run_estimate)
    command = commands.add_parser("doctor", help="show what this machine has and would run well")
    command.add_argument(
        "configs", nargs="*", metavar="CONFIG.jsonnet", help="also look at the problems of these"
    )
    add_set(command)
    command.set_defaults(run=run_doctor)
    command = commands.add_parser("push", help="give a run's models, with a model card, to others")
    command.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    command.add_argument(
        "--to", required=True, metavar="PLACE", help="a new directory, or hub:OWNER/NAME"
    )
    command.add_argument("--public", action="store_true", help="on the hub, for everybody to see")
    command.set_defaults(run=run_push)


def add_assumptions(command: argparse.ArgumentParser) -> None:
    """Numbers that no config has; the output of `vineppo estimate` repeats them."""
    command.add_argument(
        "--num-gpus",
        type=lambda text: [int(count) for count in text.split(",")],
        default=[1],
        metavar="N,N…",
        help="ranks, each with a GPU; 0: a CPU (default: 1)",
    )
    for flag, default, text in (
        ("--gpu-gib", 80, "memory of one GPU"),
        ("--train-tflops", None, "1e12 operations that one rank computes a second in all else"),
        ("--prompt-tokens", 100, "mean length of a prompt"),
        ("--response-share", 0.25, "mean length of a response as a share of the longest"),
        ("--steps", 8, "mean number of steps of a response"),
    ):
        shown = "" if default is None else f" (default: {default:g})"
        command.add_argument(flag, type=float, default=default, metavar="X", help=text + shown)
    command.add_argument(
        "--tokens-per-s",
        metavar="X|RUN_DIR",
        help="tokens that one engine samples, or a run on one rank that measured it",
    )
    command.add_argument(
        "--model-config", type=Path, metavar="FILE", help="HF config.json for model.path"
    )
    command.add_argument("--json", action="store_true", help="print every figure as JSON")


def run_reward_model(options: argparse.Namespace) -> None:
    from vineppo.tools.reward_model.config import RewardModelConfig

    def start(config: RewardModelConfig, directory: Path) -> None:
        from vineppo.tools.reward_model.train import train_reward_model

        train_reward_model(config, directory)

    run_config(RewardModelConfig, options, start)


def run_sweep(options: argparse.Namespace) -> int:
    from vineppo.tools.sweep import execute, load_sweep, print_states

    directory = options.runs_dir or Path("runs") / Path(options.sweep).stem
    runs = load_sweep(options.sweep, directory, options.assignments)
    if options.list:
        print_states(runs)
        return 0
    return execute(runs, options.index)


def run_estimate(options: argparse.Namespace) -> None:
    from vineppo.tools.estimate.report import print_estimate

    print_estimate(options)


def run_doctor(options: argparse.Namespace) -> None:
    from vineppo.tools.doctor import print_findings

    print_findings(options.configs, options.assignments)


def run_push(options: argparse.Namespace) -> None:
    from vineppo.tools.push import push

    push(options.run_dir, options.to, options.public)
