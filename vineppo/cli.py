"""The command line. Exit status: 0 done, 2 the user's mistake (one line), 1 anything else."""

import argparse
import logging
import os
import select
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

from vineppo.errors import USER_ERRNOS, InterruptionError, SharedError, UserError
from vineppo.run_command import add_run_options, add_set, run_config
from vineppo.tools.commands import add_tools

# When a rank exits, the launcher kills the rest. So the other ranks leave the main one this long to
# report what all of them found.
MAIN_RANK_LIMIT_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    quiet_libraries()
    try:
        status: int = options.run(options) or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        if isinstance(error, SharedError) and os.environ.get("RANK", "0") != "0":
            time.sleep(MAIN_RANK_LIMIT_S)
        else:
            print(f"vineppo: {error}", file=sys.stderr)
        return 2
    except InterruptionError:  # the run has said so
        return 1
    except KeyboardInterrupt:
        again = "the same command resumes from the last checkpoint"
        print(f"vineppo: interrupted; {again}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        if not reader_left():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print
        return 1
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        print(f"vineppo: {error.filename or 'writing'}: {error.strerror}", file=sys.stderr)
        return 2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vineppo", description=__doc__)
    parser.add_argument("--version", action="version", version=f"vineppo {version('vineppo')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    command = commands.add_parser("train", help="reinforcement learning from a config")
    add_run_options(command)
    command.set_defaults(run=run_train)
    command = commands.add_parser(
        "sft", help="supervised fine-tuning, RestEM or DPO-positive from a config"
    )
    add_run_options(command)
    command.set_defaults(run=run_sft)
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
    add_tools(commands)
    return parser


def run_train(options: argparse.Namespace) -> None:
    from vineppo.config.schema import TrainConfig

    def start(config: TrainConfig, directory: Path) -> None:
        from vineppo.train import train

        train(config, directory)

    run_config(TrainConfig, options, start)


def run_sft(options: argparse.Namespace) -> None:
    from vineppo.config.schema import SftConfig

    def start(config: SftConfig, directory: Path) -> None:
        if config.self_training is not None:
            config.self_training.train(config, directory)
        else:
            from vineppo.recipes.sft import sft

            sft(config, directory)

    run_config(SftConfig, options, start)


def run_evaluate(options: argparse.Namespace) -> None:
    from vineppo.tools.evaluate_run import evaluate_run

    evaluate_run(options.run_dir, options.checkpoints, options.tasks, options.assignments)


def reader_left() -> bool:
    """True if nobody reads what we print any more, as after `| head`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


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
