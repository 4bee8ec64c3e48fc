"""Neither answer nor truth runs code: by names, sympy's compilers or a worker's reply."""

import ast
import importlib.util
import logging
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support import comparators

from vineppo.tasks import safe_sympy, worker_pool
from vineppo.tasks.equivalence import is_equivalent, warm_up
from vineppo.tasks.worker_pool import WorkerDiedError, WorkerPool

MADE = "made"
TRUTH = r"2\sqrt{3}"
HARMLESS = r"\sum_{n=1}^\infty \frac{1}{n^2}"


def _chars(text: str) -> str:
    """The text in Python without quotes, which the notation takes away."""
    return "+".join(f"chr({ord(char)})" for char in text)


CALLS = (
    f"open({_chars(MADE)},{_chars('w')})",
    f"__import__({_chars('os')}).mkdir({_chars(MADE)})",
    f"[eval({_chars(f'open({MADE!r},chr(119))')})][0]",
    # Python reads full-width letters as plain ones.
    f"ｏｐｅｎ({_chars(MADE)},{_chars('w')})",
)
# sympy drops the braces: `hat+0if(0)else(open(…))` never looks `hat` up.
NAMES = tuple(
    name.replace("CODE", "+0if(0)else(%s)")
    for name in (
        *(r"\dot{CODE}", r"\ddot{CODE}", r"\hat{CODE}", r"\bar{CODE}", r"\vec{CODE}"),
        *(r"\tilde{CODE}", r"\overline{CODE}", r"\widetilde{CODE}", r"\dot {CODE}", r"\\dot{CODE}"),
        *(
            r"\mathcal{CODE}",
            r"\mathbb{CODE}",
            r"\mathrm{CODE}",
            r"\text{CODE}",
            r"\variable{CODE}",
        ),
        *("x_{CODE}", "x^2_{CODE}", r"\dot{n}_{CODE}", r"\alpha_{CODE}", r"x_\dot{CODE}"),
        *(r"x_{\dot{CODE}}", r"\dot{{CODE}}", r"\hat{\dot{CODE}}", r"\dot{a\}CODE}"),
        *(r"\text{\dot{CODE}}", r"\dot{CODE}(n)", "x_{CODE}(n)", r"f(\dot{CODE})"),
        *(r"f(\in t{CODE})", r"\operatorname{CODE}(n)"),
    )
)
FRAMES = (
    r"\sum_{n=0}^{\infty} \frac{1+n%s}{2^n}",
    r"\sum_{n=0}^{\infty} \frac{2+n%s}{3^n}",
)
HOSTILE = [frame % (name % call) for frame, name, call in product(FRAMES, NAMES, CALLS)]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a file would be made."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("compare", [is_equivalent, comparators.Unfiltered()])
def test_a_name_is_never_run(compare: Any, empty: Path) -> None:
    """240 of these 480 pairs made a file when a symbol could have any name."""
    pool = WorkerPool(compare, num_workers=1, time_limit_s=10.0)
    pairs = [pair for text in HOSTILE for pair in ((TRUTH, text), (text, TRUTH))]
    try:
        futures = [pool.submit(*pair) for pair in pairs]
        assert not any(future.result(timeout=600) for future in futures)
    finally:
        pool.close()
    assert not list(empty.iterdir())


def test_no_name_is_refused_that_has_letters_digits_and_an_index() -> None:
    for name in ("x_{12}", "x_{n+1}", r"\alpha_{k-1}", r"\vec{v}", r"\mathcal{F}_{1,2}"):
        assert is_equivalent(f"{name}+1", f"1+{name}"), name


@pytest.mark.parametrize("name", [r"\dot{CODE}", r"\hat{CODE}", r"x_{CODE}"])
def test_nothing_compiles_a_name_that_slipped_in(
    name: str, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_sympy, "_check", lambda *_: None)
    for call in CALLS:
        is_equivalent(TRUTH, FRAMES[0] % name.replace("CODE", f"+0if(0)else({call})"))
    assert not list(empty.iterdir())


def test_an_infinite_sum_compiles_nothing() -> None:
    pool = WorkerPool(comparators.audited, num_workers=1, time_limit_s=60.0)
    try:
        futures = [pool.submit(HARMLESS, text) for text in (TRUTH, r"\frac{\pi^2}{6}")]
        assert [future.result(timeout=600) for future in futures] == [False, True]
    finally:
        pool.close()


# What runs once, when it is imported.
AT_IMPORT = {"sympy", "sympy.abc", "sympy.external.importtools", "sympy.polys.polyconfig"}
# What no comparison imports: it plots, tests, or reads another notation.
OUT_OF_REACH = (
    *("sympy.plotting.", "sympy.testing.", "sympy.parsing.", "sympy.physics."),
    "sympy.utilities.matchpy_connector",
)
COMPILERS = {"compile", "eval", "exec", "exec_"}
_LIKE_ONE = re.compile(rf"(?<!def )(?<!\.)\b(?:{'|'.join(COMPILERS)})\b")


def test_every_caller_of_a_compiler_is_replaced_or_out_of_reach() -> None:
    warm_up()
    calling = {name for package in safe_sympy.LIBRARIES for name in _calling(package)}
    assert calling > AT_IMPORT | safe_sympy.OWN_SOURCE  # the walk finds what is there
    for name in calling - safe_sympy.OWN_SOURCE:
        if name in sys.modules:
            for compiler in COMPILERS:
                assert getattr(sys.modules[name], compiler) is safe_sympy.refuse_source, name
        else:
            assert name.startswith(OUT_OF_REACH), name
    for name, module in sys.modules.items():
        if name.partition(".")[0] in safe_sympy.LIBRARIES - safe_sympy.OWN_SOURCE:
            assert getattr(module, "lambdify", None) in (None, safe_sympy.refuse_source), name
            assert getattr(module, "parse_expr", None) in (None, safe_sympy.read_number), name


def _calling(package: str) -> Iterator[str]:
    """The modules that look up a compiler, or its name as in `getattr(builtins, "exec")`."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        if {"tests", "benchmarks"} & set(path.parts) or not _LIKE_ONE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(node, "id", getattr(node, "value", None))
            if isinstance(node, ast.Name | ast.Constant) and name in COMPILERS:
                parts = package, *path.relative_to(root).with_suffix("").parts
                yield ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    "reply",
    [
        comparators.pickled_reply(MADE),
        b"[" * 10_000,
        b'["value", 1e999]',
        b'["value", NaN]',
        b'["value", "1"]',
        b'["ready"]',
        b"\xff",
        b" " * 1_000_000,
    ],
    ids=lambda reply: f"{reply[:10]!r}, {len(reply)}",
)
def test_a_worker_that_lies_is_a_dead_worker(reply: bytes, empty: Path) -> None:
    pool = WorkerPool(comparators.send, num_workers=1, time_limit_s=10.0)
    try:
        with pytest.raises(WorkerDiedError):
            pool.submit(reply).result(timeout=600)
        assert pool.submit(b'["value", 1]').result(timeout=600) == 1
    finally:
        pool.close()
    assert not list(empty.iterdir())


def test_a_system_without_the_filter_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    worker_pool._warn_without_filter.cache_clear()
    for _ in range(2):
        pool = WorkerPool(comparators.Unfiltered(), num_workers=1, time_limit_s=10.0)
        try:
            assert pool.submit("2x", "x+x").result(timeout=600)
        finally:
            pool.close()
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.name for record in warnings] == ["vineppo.tasks.worker_pool"]
