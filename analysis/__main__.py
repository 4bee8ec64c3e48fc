"""`python -m analysis NAME RUN_DIR... [--out DIR]`."""

import argparse
import importlib
import sys
from pathlib import Path
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
        options = _parser().parse_args(arguments)
        out = options.out or options.run_dirs[0] / "analysis"
        module, _ = ANALYSES[options.name]
        importlib.import_module(module).run(options.run_dirs, out)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> Parser:
    width = max(map(len, ANALYSES))
    lines = [f"  {name:{width}}  {summary}" for name, (_, summary) in ANALYSES.items()]
    parser = Parser(
        prog="python -m analysis",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["analyses:", *lines]),
    )
    parser.add_argument("name", choices=ANALYSES, metavar="NAME", help="one of those below")
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, help="default: analysis/ in the first RUN_DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
