"""Answers that are meant to break a grader, hang it or be run by it."""

import random
from collections.abc import Callable

# True answers of every form that MATH and OlympiadBench have.
TRUE_ANSWERS = (
    *("5", "0.5", r"\frac{1}{2}", "x^2+1", "(1,2)", "1,-2", r"\text{(C)}", "69, 84", r"2\sqrt{3}"),
    *(r"[0,\infty)", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "6 - 5i", r"\frac{\pi}{4}", "x=3"),
    *(r"(-\infty, -2) \cup (3, 5]", "10,080", r"90^\circ", r"\text{Evelyn}", "3y^2 = 4x", r"15\%"),
)
_PIECES = r"""
    \frac \sqrt \sum \prod \int \lim \infty \log \sin \binom \choose \left( \right) \left\{ \right.
    \begin{pmatrix} \end{pmatrix} \begin{cases} \end{array} \text{ \mathrm{ \boxed{ \cdot \times
    \le \ge \ne \in \cup \{ \} \\ \% \$ \pm \circ \ldots { } ( ) [ ] ^ _ & $ = < > + - * / ! | , ; :
    0 1 2 7 10 x y i e n a_1 \pi \theta \alpha ' " # ~ \ \! \, . None nan inf Infinity I E O S N Q
"""
PIECES = _PIECES.split()
FRAMES = {
    "boxed": r"So $\boxed{%s}$.",
    "hash": "So\n#### %s",
    "final_answer": "final answer is %s",
    "answer": "Answer: %s",
    "last_number": "%s",
}
EXPENSIVE = (
    *(r"\prod_{n=1}^{10^8} n", r"\sum_{n=1}^{10^9} \frac{1}{n}", r"\int_0^\infty e^{-x^2} dx"),
    *(r"\lim_{x \to 0} \frac{\sin x}{x}", "(x+y+z+1)^{60}", r"\sqrt{2+\sqrt{3+\sqrt{5+\sqrt{7}}}}"),
    *("100000!", r"\binom{10^9}{5 \cdot 10^8}", "x^{x^{x^x}}", r"\sin(\cos(\tan(\log(x^x))))"),
    *(
        "10^{10^{10}}",
        "9^9^9",
        "9**9**9",
        "9^{9^{9^9}}",
        "2^{100000000}",
        "(-1)^{1/3}",
        "0^0",
        r"\frac{0}{0}",
        "1/0",
    ),
    *(r"\zeta(3)", r"e^{e^{e^{100}}}", r"\gcd(2^{9999}, 3^{9999})", r"7^{7^{7}} \bmod 10^{9}"),
)

MOST_ALIKE = 100
MOST_HUGE = 40  # of megabytes each


def hostile_answers(count: int, seed: int, forbidden_path: str) -> list[str]:
    """`count` distinct texts; some create the file `forbidden_path` if anything runs them.

    Deep and long ones are few: each is much like the others and takes the whole time limit.
    """
    stream = random.Random(seed)
    left: dict[Callable[[random.Random], str], int] = dict.fromkeys(
        (_nested, _long), min(MOST_ALIKE, count // 20)
    )
    left[_huge] = min(MOST_HUGE, count // 50)

    def few(kind: Callable[[random.Random], str]) -> str:
        if left[kind] == 0:
            return _any_characters(stream)
        left[kind] -= 1
        return kind(stream)

    kinds: list[Callable[[], str]] = [
        lambda: _any_characters(stream),
        lambda: bytes(stream.choices(range(256), k=stream.randrange(80))).decode("latin-1"),
        lambda: "".join(stream.choices(PIECES, k=stream.randrange(1, 30))),
        lambda: " ".join(stream.choices(PIECES, k=stream.randrange(1, 30))),
        lambda: _mutated(stream.choice(TRUE_ANSWERS), stream),
        lambda: few(_nested),
        lambda: few(_long),
        lambda: few(_huge),
        lambda: _in_other_digits(_mutated(stream.choice(TRUE_ANSWERS), stream), stream),
        lambda: _unclosed(stream.choice((*TRUE_ANSWERS, *EXPENSIVE)), stream),
        lambda: _interrupted(stream.choice(TRUE_ANSWERS), stream),
        lambda: _mutated(stream.choice(EXPENSIVE), stream, stream.randrange(2)),
        lambda: _code(forbidden_path, stream),
    ]
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[stream.choice(kinds)()] = None
    return list(texts)


def _any_characters(stream: random.Random) -> str:
    highest = stream.choice([0x20, 0x7F, 0x2FF, 0x2FFF, 0x10FFFF])
    return "".join(chr(stream.randint(0, highest)) for _ in range(stream.randrange(60)))


def _mutated(text: str, stream: random.Random, num_changes: int = 2) -> str:
    """With characters dropped, doubled, swapped or put in."""
    characters = list(text)
    for _ in range(num_changes):
        place = stream.randrange(len(characters) + 1)
        characters[place : place + stream.randrange(3)] = stream.choice(
            ["", text[place : place + 2] * 2, text[place : place + 2][::-1], stream.choice(PIECES)]
        )
    return "".join(characters)


def _nested(stream: random.Random) -> str:
    opening, closing = stream.choice(
        [("(", ")"), ("{", "}"), (r"\sqrt{", "}"), (r"\frac{1}{", "}"), ("2^{", "}"), ("[", "]")]
    )
    depth = stream.randint(1, stream.choice([30, 300, 3000]))
    return opening * depth + "1" + closing * (depth - stream.randrange(2))


def _long(stream: random.Random) -> str:
    count = stream.randint(1, stream.choice([100, 1000, 10_000]))
    unit = stream.choice(
        ["9", "1+", "x^2+", "1,", r"\frac12 ", " ", "\n", r"\\ ", "!", "-", "3.", "a"]
    )
    return unit * count + "1"


def _huge(stream: random.Random) -> str:
    unit = stream.choice(["9", "{", "(", "x+", r"\frac{", r"\boxed{", "####", " ", "\0", "٣"])
    return unit * (stream.randint(1_000_000, 3_000_000) // len(unit))


def _in_other_digits(text: str, stream: random.Random) -> str:
    """In Arabic-Indic, Devanagari, full-width or mathematical digits, or as superscripts."""
    zero = stream.choice([0x660, 0x966, 0xFF10, 0x1D7CE, 0x1D7D8])
    digits = stream.choice(["⁰¹²³⁴⁵⁶⁷⁸⁹", "".join(chr(zero + i) for i in range(10))])
    return text.translate(str.maketrans("0123456789", digits))


def _unclosed(text: str, stream: random.Random) -> str:
    opening = stream.choice([r"\frac{", r"\boxed{", r"\left(", r"\begin{pmatrix}", "$", r"\[", "{"])
    return (opening + text)[: stream.randrange(1, len(opening + text) + 1)]


def _interrupted(text: str, stream: random.Random) -> str:
    """By NUL, half a surrogate pair, marks of direction, or what joins letters."""
    place = stream.randrange(len(text) + 1)
    return text[:place] + stream.choice("\0\ud800\udfff\u202e\u200b\u200d\ufeff\x1b") + text[place:]


def _code(path: str, stream: random.Random) -> str:
    call = f"__import__('pathlib').Path('{path}').touch()"
    return stream.choice(
        [
            call,
            f"1+{call}",
            f'eval("{call}")',
            f"\\text{{{call}}}",
            f"(lambda: {call})()",
            f"[{call} for x in (1,)]",
            f"\\immediate\\write18{{touch {path}}}",
            f"x.__class__.__init__.__globals__['__builtins__']['open']('{path}', 'w')",
            f"$(touch {path})",
            f"1; import os; os.system('touch {path}')",
            f"S('{call}')",
            f"Integer({call})",
            f"Symbol('x').subs('x', \"{call}\")",
            f'parse_expr("{call}", global_dict={{}})',
            f'x + lambdify((), "{call}")()',
            f"\\variable{{{call}}}",
            f"\\operatorname{{{call}}}(x)",
            f"x_{{{call}}}",
            f"\\mathrm{{eval}}({call})",
            f"{{{{{call}}}}}",
        ]
    )
