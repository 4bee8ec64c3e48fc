"""Pieces of HTML. What comes from a run goes through `escape`, here and nowhere else unescaped."""

from collections.abc import Sequence
from html import escape

ABSENT = "–"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int]) -> str:
    """A table of texts; the columns `numbers`, counted from 0, stand to the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f"<div class=wide><table><thead><tr>{line('th', heads)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def number(value: float | None, form: str = ",.0f", unit: str = "") -> str:
    return ABSENT if value is None else format(value, form) + unit
