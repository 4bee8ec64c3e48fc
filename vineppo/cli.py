"""The command line. Exit status: 0 done, 2 the user's mistake (one line), 1 anything else."""

import argparse
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path

from vineppo.errors import USER_ERRNOS, InterruptionError, SharedError, UserError

# The first rank to end has the launcher end the others: the main one must have said why by then.
MAIN_RANK_LIMIT_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    quiet_libraries()
    try:
        status = options.run(options)
    except UserError as error:
        if isinstance(error, SharedError) and os.environ.get("RANK", "0") != "0":
            time.sleep(MAIN_RANK_LIMIT_S)
        else:
            print(f"vineppo: {error}", file=sys.stderr)
        return 2
    except InterruptionError:  # which the run has said
        return 1
    except KeyboardInterrupt:
        again = "the same command goes on from the last checkpoint"
        print(f"vineppo: interrupted; {again}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        if not has_reader():
            return 1
        raise
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        print(f"vineppo: {error.filename or 'writing'}: {error.strerror}", file=sys.stderr)
        return 2
    return status or 0


def has_reader() -> bool:
    """Whether somebody still reads the output; `head`, once it has enough, does not."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed later
        return False
    return True


def build_parser() -> argparse.ArgumentParser:
    from vineppo.tools.estimate import add_options

    parser = argparse.ArgumentParser(prog="vineppo", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, text in (
        ("train", "reinforcement learning from a config"),
        ("sft", "supervised fine-tuning, RestEM or DPO-positive from a config"),
        ("reward-model", "a reward model from preference pairs, from a config"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("config", metavar="CONFIG.jsonnet")
        command.add_argument("--run-dir", type=Path, help="default: runs/NAME of the config")
        add_set(command)
        command.add_argument(
            "--dry-run", action="store_true", help="print the resolved config and stop"
        )
        command.set_defaults(run=run_config)
    command = commands.add_parser("evaluate", help="pass@k of a run's checkpoints")
    command.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    command.add_argument(
        "--checkpoints", default="last", metavar="all|last|N,N…", help="default: last"
    )
    command.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="TASK.jsonnet",
        dest="tasks",
        help="other problems, e.g. configs/evaluation/svamp.jsonnet; may be repeated",
    )
    add_set(command)
    command.set_defaults(run=run_evaluate)
    command = commands.add_parser("sweep", help="the runs that a jsonnet file lists, one by one")
    command.add_argument("sweep", metavar="SWEEP.jsonnet")
    command.add_argument("--runs-dir", type=Path, help="default: runs/NAME of the sweep's file")
    command.add_argument("--list", action="store_true", help="print how far every run is and stop")
    command.add_argument("--index", type=int, metavar="N", help="the run number N alone, from 0")
    add_set(command)
    command.set_defaults(run=run_sweep)
    command = commands.add_parser("estimate", help="memory and time that configs will take")
    command.add_argument("configs", nargs="+", metavar="CONFIG.jsonnet")
    add_set(command)
    add_options(command)
    command.set_defaults(run=run_estimate)
    command = commands.add_parser("doctor", help="what this machine has and would run well")
    command.set_defaults(run=run_doctor)
    command = commands.add_parser("push", help="a run's models, with a model card, to others")
    command.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    command.add_argument(
        "--to", required=True, metavar="PLACE", help="a new directory, or hub:OWNER/NAME"
    )
    command.add_argument("--public", action="store_true", help="on the hub, for everybody to see")
    command.set_defaults(run=run_push)
    return parser


def add_set(command: argparse.ArgumentParser, help_text: str | None = None) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="dotted.key=value",
        dest="assignments",
        help=help_text,
    )


def run_config(options: argparse.Namespace) -> None:
    from vineppo.config.load import load_config, to_dict
    from vineppo.config.schema import AnyConfig, RewardModelConfig, SftConfig, TrainConfig

    config: AnyConfig
    try:
        if options.command == "sft":
            config = load_config(SftConfig, options.config, options.assignments)
        elif options.command == "reward-model":
            config = load_config(RewardModelConfig, options.config, options.assignments)
        else:
            config = load_config(TrainConfig, options.config, options.assignments)
    except UserError as error:
        raise SharedError(str(error)) from None
    if options.dry_run:
        print(json.dumps(to_dict(config), indent=2))
        return
    leave_busy_cores()
    from vineppo.rank_watch import watched_ranks

    directory = options.run_dir or Path("runs") / config.name
    with watched_ranks():
        if isinstance(config, SftConfig) and config.self_training is not None:
            config.self_training.train(config, directory)
        elif isinstance(config, SftConfig):
            from vineppo.sft import sft

            sft(config, directory)
        elif isinstance(config, RewardModelConfig):
            from vineppo.tools.reward_model import train_reward_model

            train_reward_model(config, directory)
        else:
            from vineppo.train import train

            train(config, directory)


def run_evaluate(options: argparse.Namespace) -> None:
    leave_busy_cores()
    from vineppo.evaluate import evaluate_run

    evaluate_run(options.run_dir, options.checkpoints, options.tasks, options.assignments)


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


def run_doctor(_: argparse.Namespace) -> None:
    from vineppo.tools.doctor import print_findings

    print_findings()


def run_push(options: argparse.Namespace) -> None:
    from vineppo.tools.push import push

    push(options.run_dir, options.to, options.public)


def leave_busy_cores() -> None:
    """Before torch is imported."""
    from vineppo import cores

    line = cores.leave_busy_cores()
    if line is not None:
        print(f"vineppo: {line}", file=sys.stderr)


def quiet_libraries() -> None:
    """Before any of them is imported: their chatter would bury ours. Set variables are kept."""
    for variable, value in (
        ("VLLM_LOGGING_LEVEL", "ERROR"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("TORCH_CPP_LOG_LEVEL", "ERROR"),
        ("HF_HUB_DISABLE_PROGRESS_BARS", "1"),
        ("TRANSFORMERS_VERBOSITY", "error"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ):
        os.environ.setdefault(variable, value)
    logging.raiseExceptions = False  # a full disk would have a traceback for each line of wandb's
    for library in ("DeepSpeed", "vllm"):
        logging.getLogger(library).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")


if __name__ == "__main__":
    sys.exit(main())
