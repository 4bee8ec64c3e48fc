"""Imports go one way, and the picture of the rooms is that of the code."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def architecture():
    spec = importlib.util.spec_from_file_location("architecture", DOCS / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_imports_go_down(architecture):
    assert architecture.upward(architecture.imports()) == []


def test_the_core_imports_neither_recipes_nor_tools(architecture):
    """The command line alone registers the tools' commands."""
    importers = {a for a, b in architecture.imports() if b in ("recipes", "tools")}
    assert importers <= {"command line", "tools", "analysis", "benchmarks"}


def test_an_import_that_goes_up_is_seen(architecture):
    assert architecture.upward({("types", "config"), ("config", "types")}) == [("types", "config")]


def test_an_arrow_that_others_imply_is_left_out(architecture):
    edges = {("a", "b"), ("b", "c"), ("a", "c")}
    assert architecture.reduced(edges) == {("a", "b"), ("b", "c")}


def test_the_picture_is_that_of_the_code(architecture):
    drawn = (DOCS / "architecture.svg").read_text()
    assert drawn == architecture.svg(), "python docs/architecture.py draws it anew"
