"""Which iterations of a run an option names."""

from collections.abc import Sequence

from vineppo.errors import UserError


def choose_iterations(
    available: Sequence[int], wanted: str, option: str, missing: str
) -> list[int]:
    """Of `available`, ascending: "all", "last", "ends", "spaced:4" or numbers with commas.

    "ends" are the first, the middle and the last: of 1 … 12 these are 1, 7, 12. "spaced:4" takes
    four, evenly, the first and the last among them: of 0 … 9 it is 0, 3, 6, 9. Raises `UserError`
    naming the `option` for anything else, and beginning with `missing` ("runs/a has no policy") for
    a number that is not available.
    """
    last = len(available) - 1
    kind, _, count = wanted.partition(":")
    if wanted == "all":
        places = set(range(len(available)))
    elif wanted == "last":
        places = {last}
    elif wanted == "ends":
        places = {0, len(available) // 2, last}
    elif kind == "spaced" and count.isdecimal() and int(count) > 0:
        between = max(int(count) - 1, 1)
        places = {round(i * last / between) for i in range(int(count))}
    else:
        return _numbers(available, wanted, option, missing)
    return [available[place] for place in sorted(places)]


def _numbers(available: Sequence[int], wanted: str, option: str, missing: str) -> list[int]:
    try:
        numbers = sorted({int(text) for text in wanted.split(",")})
    except ValueError:
        raise UserError(
            f"{option} must be all, last, ends, spaced:N or numbers with commas, got {wanted!r}"
        ) from None
    for number in numbers:
        if number not in available:
            held = ", ".join(map(str, available))
            raise UserError(f"{missing} of iteration {number} (only of {held})")
    return numbers
