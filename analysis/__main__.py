"""`python -m analysis NAME RUN_DIR... [--out DIR] [options of the analysis]`."""

import argparse
import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from analysis import ANALYSES
from vineppo.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser that complains in one line."""

    def __init__(self, *names: Any, **keys: Any) -> None:
        super().__init__(*names, **keys | {"add_help": False})
        self.add_argument("-h", "--help", action="help", help="Show this help.")

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


class Help(argparse.HelpFormatter):
    """Shows every default, 0 included."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default not in (None, [], argparse.SUPPRESS)
        has_default &= action.default is not False
        return f"{action.help} Default: %(default)s." if has_default else action.help


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 2 the user's mistake, told in one line on stderr."""
    try:
        if not arguments or not (arguments[0] in ANALYSES or is_file(arguments[0])):
            _overview().parse_args(arguments)
        name, *rest = arguments
        module, parser = open_analysis(name)
        given = vars(parser.parse_args(rest))
        paths, out = given.pop("run_dirs"), given.pop("out")
        for line in module.run(paths, out or paths[0] / "analysis" / Path(name).stem, **given):
            print(line)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def is_file(name: str) -> bool:
    """True for an analysis that is named by its file."""
    return name.endswith(".py") and Path(name).is_file()


def open_analysis(name: str) -> tuple[ModuleType, Parser]:
    """The module of an analysis, which may be a file, and the parser of its options."""
    if is_file(name):
        spec = spec_from_file_location(Path(name).stem, name)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        about = (module.__doc__ or "").partition("\n")[0]
    else:
        module = importlib.import_module(f"analysis.{name.replace('-', '_')}")
        about = ANALYSES[name]
    parser = Parser(f"python -m analysis {name}", description=about, formatter_class=Help)
    parser.add_argument(
        "run_dirs",
        nargs="+",
        type=Path,
        metavar="RUN_DIR",
        help="A run directory, or a folder with the tables of this analysis.",
    )
    parser.add_argument(
        "--out", type=Path, help="Write to this folder instead of RUN_DIR/analysis/NAME."
    )
    if hasattr(module, "add_options"):
        module.add_options(parser)
    return module, parser


def _overview() -> Parser:
    width = max(map(len, ANALYSES))
    lines = [f"  {name:{width}}  {summary}" for name, summary in ANALYSES.items()]
    parser = Parser(
        "python -m analysis",
        "python -m analysis NAME RUN_DIR... [--out DIR] [options of the analysis]",
        epilog="\n".join(["analyses (python -m analysis NAME --help):", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    help_text = "An analysis listed below, or FILE.py."
    parser.add_argument("name", choices=ANALYSES, metavar="NAME", help=help_text)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
