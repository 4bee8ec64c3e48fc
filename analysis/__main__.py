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


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 2 the user's mistake, told in one line on stderr."""
    try:
        if not arguments or arguments[0] not in ANALYSES:
            _overview().parse_args(arguments)
        name, *rest = arguments
        module = importlib.import_module(ANALYSES[name][0])
        given = vars(_parser(name, module).parse_args(rest))
        paths, out = given.pop("run_dirs"), given.pop("out")
        module.run(paths, out or paths[0] / "analysis" / name, **given)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _overview() -> Parser:
    width = max(map(len, ANALYSES))
    lines = [f"  {name:{width}}  {summary}" for name, (_, summary) in ANALYSES.items()]
    parser = Parser(
        prog="python -m analysis",
        usage="python -m analysis NAME RUN_DIR... [--out DIR] [options of the analysis]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["analyses (python -m analysis NAME --help):", *lines]),
    )
    parser.add_argument("name", choices=ANALYSES, metavar="NAME", help="one of those below")
    return parser


def _parser(name: str, module: ModuleType) -> Parser:
    parser = Parser(prog=f"python -m analysis {name}", description=ANALYSES[name][1])
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, help=f"default: analysis/{name}/ in the first RUN_DIR")
    add_options = getattr(module, "add_options", None)
    if add_options is not None:
        add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
