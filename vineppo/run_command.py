"""Options and start of the commands that train from a config."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vineppo.errors import SharedError, UserError


def add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of a command that trains from a config, for `run_config`."""
    command.add_argument("config", metavar="CONFIG.jsonnet")
    command.add_argument("--run-dir", type=Path, help="default: runs/NAME of the config")
    add_set(command)
    command.add_argument(
        "--dry-run", action="store_true", help="print the resolved config and stop"
    )


def add_set(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="dotted.key=value",
        dest="assignments",
        help="a key of the config and its value; may be repeated",
    )


def run_config(kind: Any, options: argparse.Namespace, start: Callable[[Any, Path], None]) -> None:
    """Loads the config, and starts its run in its directory unless --dry-run asks to print it."""
    from vineppo.config.load import load_config, to_dict

    try:
        config = load_config(kind, options.config, options.assignments)
    except UserError as error:
        raise SharedError(str(error)) from None
    if options.dry_run:
        print(json.dumps(to_dict(config), indent=2))
    else:
        start(config, options.run_dir or Path("runs") / config.name)
