"""`python -m analysis NAME RUN_DIR... [--out DIR] [options of the analysis]`."""

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from analysis import ANALYSES
from vineppo.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


class Help(argparse.HelpFormatter):
    """Names every default that there is."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default not in (None, False, argparse.SUPPRESS)
        return f"{action.help}; default: %(default)s" if has_default else action.help


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 2 the user's mistake, told in one line on stderr."""
    try:
        if not arguments or arguments[0] not in ANALYSES:
            _overview().parse_args(arguments)
        name, *rest = arguments
        module, parser = open_analysis(name)
        given = vars(parser.parse_args(rest))
        paths, out = given.pop("run_dirs"), given.pop("out")
        for line in module.run(paths, out or paths[0] / "analysis" / name, **given):
            print(line)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def open_analysis(name: str) -> tuple[ModuleType, Parser]:
    """The analysis's module, and the parser of its options."""
    module = importlib.import_module(f"analysis.{name.replace('-', '_')}")
    parser = Parser(f"python -m analysis {name}", description=ANALYSES[name], formatter_class=Help)
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, help="without: analysis/NAME/ in the first RUN_DIR")
    if hasattr(module, "add_options"):
        module.add_options(parser)
    return module, parser


def _overview() -> Parser:
    width = max(map(len, ANALYSES))
    lines = [f"  {name:{width}}  {summary}" for name, summary in ANALYSES.items()]
    parser = Parser(
        prog="python -m analysis",
        usage="python -m analysis NAME RUN_DIR... [--out DIR] [options of the analysis]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["analyses (python -m analysis NAME --help):", *lines]),
    )
    parser.add_argument("name", choices=ANALYSES, metavar="NAME", help="one of those below")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
