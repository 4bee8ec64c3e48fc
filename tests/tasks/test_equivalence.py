import pytest

from vineppo.tasks.equivalence import compare_at_once, is_copied, is_equivalent


@pytest.mark.parametrize(
    ("answer", "extracted"),
    [
        ("18", " 18 "),
        ("18", "18.00"),
        ("0.5", ".5"),
        ("-3", "-3.0"),
        (r"\frac{1}{2}", "0.5"),
        (r"\frac{1}{2}", "1/2"),
        ("1/2", "$1/2$"),
        (r"\frac{3}{4}", r"\frac34"),
        ("C", r"\text{(C)}"),
        (r"\text{Evelyn}", "Evelyn"),
        ("x^2+1", "1 + x^2"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        ("6 - 5i", "-5i+6"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        ("3,5,7", "7,3,5"),
        ("10,080", "10080"),
        ("x=5", "5"),
        (r"90^\circ", "90"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"3\frac{1}{2}", "3.5"),
        ("2x+2", "2(x+1)"),
        ("69, 84", "84,69.0"),
        ("27, 54, 108, 135", "27,54,108,135"),  # no thousands
        ("(1,8,19), (2,7,13)", "(2,7,13), (1, 8, 19)"),
        (r"\frac{1}{2}, -2", r"-2,0.5"),
        ("f(x)=x, f(x)=2-x", "f(x)=2-x, f(x)=x"),
        (r"90^{\circ}, 60^{\circ}", "60,90"),
        ("1, 3, 5", r"\{5, 3, 1\}"),
        ("1, 3", r"2 \pm 1"),  # not item by item, but as math-verify's set
        # The parser of before gave up on these, and searched them for a number.
        (r"\frac{7}{5} + \frac{1}{5} i.", r"\frac{7+i}{5}"),
        (r"2007 + \frac\pi 2", r"\frac{\pi}{2} + 2007"),
        (r"\text{A,D}", "A, D"),
        (r"\text{A, D}", "D, A"),
        ("1234", "1 234"),
        ("12345", "12{,}345"),
        (r"111, \! 111, \! 111", r"111\,111\,111"),
        (r"\dfrac{2469}{20,\!000}", r"\frac{2469}{20000}"),
        (r"237.5\%", "237.5"),
        (r"12.5\%", r"12.5 \%"),
        ("x+1", "x+1."),
        ("7", "7,"),
        (r"\text{1:03 PM}", "1:03 p.m."),
        (r"\text{A5}_{11}", "A5_{11}"),
        ("43_5.", "43"),
        ("0.56 = 56\\%", "56\\%"),
        ("70, 110", "70,110"),
        ("x + 11", "x+11, 11+x"),
        (r"\frac{3}{2}", r"\\frac{3}{2}"),
        # A number may be written with a name, a unit, and what it was computed from.
        ("24", "x = 24"),
        ("24", "4! = 24"),
        ("24", "4!=24"),
        *(
            ("6", f"6 {unit}")
            for unit in ("cm", "kg", "mph", "dollars", "hours", "months", "roots", "logs", "cc")
        ),
        ("1234567x", "1 234 567x"),
        ("-6", "$-6"),
        ("24", r"24 \text{ cm}^2"),
        ("24", "24 square inches"),
        ("15000", r"1.5 \times 10^4"),
        ("3.5", "3 1/2"),
        (r"\frac{1}{3}", "0.333333"),
        (r"(-\infty, 3) \cup (3, \infty)", r"\mathbb{R} \setminus \{3\}"),
    ],
)
def test_the_same_mathematics(answer: str, extracted: str) -> None:
    assert is_equivalent(answer, extracted)


@pytest.mark.parametrize(
    ("answer", "extracted"),
    [
        ("18", "81"),
        ("0.1", "0.10000000000000001"),  # as floats they are equal
        (r"\frac{1}{2}", "0.51"),
        ("C", r"\text{(D)}"),
        ("x^2+1", "x^2-1"),
        ("1,-2", "1"),
        ("4", "2,4"),
        ("3", r"4\text{ or }3"),
        ("(1,2)", "[1,2]"),
        ("1", "3/0"),
        ("7", ""),
        ("7", "}{"),
        ("26", "1000(26)"),
        ("69, 84", "69"),
        ("69, 84", "69, 84, 85"),
        ("69, 84", "69, 69"),
        ("3, 3", "3, 4"),
        ("(1,2), (3,4)", "(2,1), (3,4)"),
        ("10,080", "80,10"),  # one number, no list: no blank behind its comma
        # What is still to be computed.
        ("9", "(4+20+7+8-15)/4"),
        ("26000", "1000(26)"),
        ("24", "4!"),
        ("24", "x = 20 + 4"),
        ("5", "20/4"),
        ("1024", "2^{10}"),
        ("(1,2)", "(3-2,1+1)"),
        ("1, 2", "2-1, 2"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 3-2 \\ 2 \end{pmatrix}"),
        # What cannot be parsed is wrong, not searched for a number.
        ("7", r"100 \bmod 7"),
        ("0", r"\{x \mid x \ne 0\}"),
        ("5", r"8x+1\equiv 5 \pmod{12}"),
        (r"\frac{7}{5} + \frac{1}{5} i.", "7"),
        (r"2007 + \frac\pi 2", "2007"),
        ("7", "3 4"),
        ("34", "3 4"),
        ("34", r"3\,4"),
        ("123", "1 2 3"),
        ("1234", "12 34"),
        ("6", "--6"),
        ("24", "5!=24"),
        *(
            ("6", f"6 {word}")
            for word in ("pi", "sqrt", "log", "sin", "fifths", "eighths", "root two", "xy", "zero")
        ),
        ("24", "x!=24"),
        (r"7\pi", r"3 4\pi"),
        ("4", "5=4"),
        ("x+1", "2=x+1"),
        ("5", "5 million"),
        ("5", "5x"),
        ("2", "2m-m"),  # no unit
        (r"\text{CBAD}", "ABCD"),  # no product of four letters
        ("1011_2", "1011_3"),
        (r"\frac{1}{2}", r"0.5\%"),
    ],
)
def test_other_mathematics(answer: str, extracted: str) -> None:
    assert not is_equivalent(answer, extracted)


_VECTOR = r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"


@pytest.mark.parametrize(
    ("answer", "extracted", "expected"),
    [
        ("6", r"x = 1 \text{ or } x = 6", False),
        ("6", "x = 6; x = 1", False),
        ("6", "1, 2, x = 6", False),
        ("6", r"x = 1 \quad x = 6", False),
        ("6", r"x = 1 \quad y = 6", False),
        ("6", r"x = 1 \\ y = 6", False),
        *(
            ("6", f"x = 1{between}y = 6", False)
            for between in (
                *(
                    r" \land ",
                    r" \wedge ",
                    r" \vee ",
                    " & ",
                    r" \& ",
                    r"\text{, so }",
                    " ∨ ",
                    r"\;\;\; ",
                ),
                *(r"\text{ then }", r" \hspace{1cm} ", r" \newline ", r"\\", " | ", " so ", " : "),
            )
        ),
        *(("6", f"x = 1{between}x = 6", False) for between in (r" \lor ", " / ", " ", " - ")),
        ("6", "1. x = 2 2. x = 6", False),
        (r"\sqrt{3}", r"x = \sqrt{2} \vee x = \sqrt{3}", False),
        (r"\sqrt{3}", r"p = \sqrt{2} \land q = \sqrt{3}", False),
        ("x+1", r"f(x) = x \vee f(x) = x+1", False),
        ("(3,4)", "A = (1,2) B = (3,4)", False),
        ("(3,4)", r"(x,y) = (1,2) \text{ or } (x,y) = (3,4)", False),
        *(
            ("6", f"{chain} = 6", True)
            for chain in (
                *("V = 2xy", r"A = \frac{1}{2}bh", "AB = BC + CD", "f(x) = x^2 + x", "n = k!"),
                *(
                    r"A = \frac{1}{2} \times \text{base} \times \text{height}",
                    r"2x = 12 \implies x",
                ),
                *(r"\text{Total} = 2 \text{ bags} \times 3 \text{ apples}", r"x = a + \sqrt{b} c"),
            )
        ),
        ("6", "6 = x", True),
        ("-4", r"k = -2, \quad q = -4", False),
        ("4", "a = 4, r = 0", False),
        (r"\sqrt{2}", r"a = \sqrt{3}, b = \sqrt{2}", False),
        ("x+1", "y = 2x, z = x+1", False),
        ("(3,4)", "A=(1,2), B=(3,4)", False),
        ("(1,2), (3,4)", "A=(1,2), B=(3,4)", True),
        ("1, 6", r"x = 1 \text{ or } x = 6", True),
        (r"x = \pm 2", r"x = 2 \text{ or } x = -2", True),
        (r"\pm 2", "x = 2, x = -2", True),
        ("6", "x = 6, x = 6.0", True),
        ("1234", "x = 1,234", True),
        ("6", r"V = 2xy = 6", True),
        ("(1,2)", "x=1, y=2", True),
        (r"(1,2,\frac{1}{2})", r"a=1, \quad b=2, \text{ and } c=0.5", True),
        ("(1,2)", "x=2, y=1", False),
        ("(1,2)", "y=1, x=2", False),  # the pair is (2,1)
        ("(1,2)", "x=1, x=2", False),
    ],
)
def test_several_answers_answer_as_many_truths(answer: str, extracted: str, expected: bool) -> None:
    assert is_equivalent(answer, extracted) is expected


@pytest.mark.parametrize(
    ("answer", "extracted", "expected"),
    [
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", False),
        (r"\frac{1}{2^{99}}", r"2^{-99}", True),
        (r"\frac{1}{2^{99}}", "0.0", False),
        (r"\frac{1}{4194304}", "0.0", False),
        (r"\frac{1}{4194304}", "0.000000238419", True),
        (r"1.23\times 10^{-8}", "0", False),
        (r"1.23\times 10^{-8}", r"1.24 \times 10^{-8}", False),
        (r"1.23\times 10^{-8}", "0.0000000123", True),
        (r"2^{-9999}\pi", r"2^{-9998}\pi", False),
        ("x + 2^{-99}", "x + 2^{-98}", False),
        (r"\{2^{-99}, 3\}", r"\{2^{-98}, 3\}", False),
        (
            r"\begin{pmatrix} 0 \\ 2^{-99}x \end{pmatrix}",
            r"\begin{pmatrix} 0 \\ 0 \end{pmatrix}",
            False,
        ),
        (
            r"\begin{pmatrix} 0 \\ 2 \end{pmatrix}",
            r"\begin{pmatrix} 0.00000001 \\ 2 \end{pmatrix}",
            False,
        ),
        (
            r"\begin{pmatrix} 1/3 \\ 2 \end{pmatrix}",
            r"\begin{pmatrix} 0.333333 \\ 2 \end{pmatrix}",
            True,
        ),
        ("2^{100}", "2^{100}+1", False),
        # Six digits that agree to the last one.
        (r"\frac{1}{3}", "0.33333", False),
        (r"\frac{1}{3}", "0.333334", False),
        (r"\frac{2}{3}", "0.6666666666666666", True),
        (r"\frac{1000}{7}", "142.857", True),
        (r"\sqrt{2}", "1.41421", True),
        (r"\sqrt{2}", "1.4142", False),
        ("5", "4.999999", False),
        ("4194304", r"4.19430 \times 10^6", False),
        (r"\frac{3}{10}", "0.30000000000000004", True),  # a float's error
        # An approximation beside the exact value.
        (r"25\pi", r"A = 25\pi \approx 78.54", True),
        (r"25\pi", r"25\pi ≈ 79", True),
        ("78.54", r"25\pi \approx 78.54", True),
        (r"\frac{1}{3}", r"\frac{1}{3} \approx 0.33", True),
        (r"25\pi", r"25\pi \approx 78.55", False),
        (r"25\pi", r"24\pi \approx 25\pi", False),
        (r"25\pi", "78.54", False),
        ("5", r"5 \approx 5.4", False),
        ("1", r"1 \approx 2 \approx 3", False),
    ],
)
def test_numbers_compare_relatively(answer: str, extracted: str, expected: bool) -> None:
    assert is_equivalent(answer, extracted) is expected


@pytest.mark.parametrize(
    ("answer", "extracted", "expected"),
    [
        (r"\frac{1}{3}\pi r^2 h", r"\frac{1}{3}\pi r^2", False),
        (r"\frac{1}{3}\pi r^2 h", r"\frac{\pi r^2 h}{3}", True),
        ("2s+3t", "2s+3", False),
        ("3t", "3", False),
        (r"\pi ab", r"\pi", False),
        ("x^2 m", "x^2", False),
        (r"36\pi", "36\\pi m", True),
        (r"36\pi", r"36\pi \text{ cm}^2", True),
        (r"36\pi", r"36\pi square units", True),
        (r"2\sqrt{3}", r"2\sqrt{3} cm", True),
        ("2x", r"2x \text{ cm}", True),
        ("2x", "2x cm", True),
        ("2x", "2x apples", True),
        ("12", r"12\text{k}", False),
    ],
)
def test_a_variable_is_no_unit(answer: str, extracted: str, expected: bool) -> None:
    assert is_equivalent(answer, extracted) is expected


def test_a_true_answer_of_many_digits() -> None:
    long = "7" * 5000
    assert compare_at_once(long, "3") is False
    assert compare_at_once(long, f"x = {long}0") is False
    assert compare_at_once(rf"\frac{{{long}}}{{3}}", "0.5") is False
    assert compare_at_once(f"{long}.5", long + ".50") is True


@pytest.mark.parametrize(
    ("answer", "extracted", "expected"),
    [
        (r"[1,\infty)", r"[1,+\infty)", True),
        (r"(-\infty,2) \cup (3,\infty)", r"(-\infty,+2) \cup (3,+\infty)", True),
        (r"[1,\infty)", r"[2,+\infty)", False),
        ("12", r"\text{Total Cost} = \$12", True),
        ("12", r"\text{Total Cost} = \$13", False),
        ("12", r"2 + 3 \text{ apples} = 12", False),
        (_VECTOR, rf"\mathbf{{v}} = {_VECTOR}", True),
        (rf"\mathbf{{v}} = {_VECTOR}", _VECTOR, True),
        (_VECTOR, r"\begin{pmatrix} 1 \\[8pt] 2 \end{pmatrix}", True),
        (_VECTOR, r"\begin{bmatrix} 1 \\[0.5 em] 2 \\ \end{bmatrix}", True),
        (_VECTOR, r"\begin{pmatrix} 1 & 2 \end{pmatrix}", False),
        (_VECTOR, rf"\begin{{pmatrix}} 1 & 0 \\ 0 & 1 \end{{pmatrix}} {_VECTOR}", False),
        (_VECTOR, r"\text{all of the above}", False),
        (r"\log_2 3", r"\log_2(3)", True),
        (r"\log_2 3", r"\log_3(2)", False),
        (r"\text{odd}", "Odd", True),
        (r"\text{odd}", "even", False),
        (r"\text{Yes}", r"\textbf{yes}.", True),
        (r"\text{Yes}", "No", False),
        *(("77", text, True) for text in ("€77", "£77", "77€", r"\text{€}77", "77 ₽", r"\$77")),
        ("77", "€78", False),
        ("73", r"\bf 73", True),
        ("73", r"{\bfseries 73}", True),
        ("73", r"\boldsymbol{73}", True),
        *(
            ("73", text, True)
            for text in (r"{\Large 73}", r"\color{red}{73}", r"\underline{73}", r"\fbox{73}")
        ),
        (_VECTOR, r"\begin{pmatrix} 1 \\*[8pt] 2 \end{pmatrix}", True),
        (r"25\pi", r"25\pi \text{ cm}^2 \approx 78.54 \text{ cm}^2", True),
        (r"25\pi", r"25\pi \simeq 78.54", True),
        ("(1,2)", r"\{x=1, y=2\}", True),
        ("x+1", r"{\it x}+{1}", True),
        (r"\frac{\sqrt{3}}{2}", r"\sin 60^\circ", True),
        (r"\frac{\sqrt{3}}{2}", r"\sin 60", False),
        (r"\cos 70^\circ", r"\sin(10^{\circ} + 10°)", True),
        (r"-\sqrt{3}", r"\frac{\sin 80^\circ(-1+4\cos 80^\circ)}{\cos 80^\circ}", True),
        ("1", "1_000", False),
    ],
)
def test_other_notations_of_an_answer(answer: str, extracted: str, expected: bool) -> None:
    assert is_equivalent(answer, extracted) is expected


def test_what_is_decided_at_once() -> None:
    assert compare_at_once("18", "18.00") is True
    assert compare_at_once("18", "17") is False
    assert compare_at_once("0.5", "1/2") is True
    assert compare_at_once("4", "x = 4") is True
    assert compare_at_once("4", "2+2") is False
    assert compare_at_once("4", "2+2 = 4") is None
    assert compare_at_once("x", "9" * 2000) is False
    assert compare_at_once("1e3", "1000") is None  # e may be Euler's
    assert compare_at_once("٣", "3") is None  # Decimal would read the Arabic digit


@pytest.mark.parametrize(
    ("answer", "extracted", "expected"),
    [
        ("x^2+2x+1", "(x + 1)^2", True),
        ("x^2+2x+1", r"\left(x+1\right)^{2}", True),
        ("7", "f(x)+3 = 7", True),
        *(
            ("x^2+2x+1", wrapped, True)
            for wrapped in (
                "y = (x+1)^2",
                "((x+1)^2)",
                "[(x+1)^2.]",
                "(x+1)^2 + 0",
                "0 + (x+1)^2",
                r"1\cdot((x+1)^2)",
                r"(x+1)^2 \times 1",
                "1*f(x) + 3 = 7",
                "g(x) = 1*((x+1)^2+0) = (x+1)^2",
            )
        ),
        *(
            ("x^2+2x+1", wrapper.replace("A", "(x+1)^2"), True)
            for wrapper in (
                *("A+0.0", "A+(0)", r"\frac{A}{1}", "1.0(A)", "2A-A", "y=1.0(A)", "{A}", "-(-A)"),
                *(r"\sum_{k=1}^{1} A", r"\prod_{k=1}^1 A", r"\int_0^1 A dt"),
                *(r"\sqrt{A^2}", "A=A", "a+b=A", r"A \approx A", "0, A", r"{{x}+1}^{2}"),
            )
        ),
        ("x^2+2x+1 = 0", "(x+1)^2 - 0 = 0", True),
        ("x^2+2x+1", "(x+1)(x+1)", False),
        ("5", "f(4) = f(x)+3 = 5", False),  # a formula on the way to a number
        ("x^2+2x+1", "(x+1)^2 = x^2+2x+1", False),
        ("(x+1)^2", "y = (x+1)^2", False),
        ("y = (x+1)^2", "(x+1)^2", False),
        ("y = 1 + f(x)", "y = f(x)+1", False),
        ("x^2+2x+1", "x^2+2x+1", False),  # not there
        ("(x+1)^2", "(x+1)^2", False),  # the true answer to the letter
        ("x", "x", False),
        ("7", "7", False),
        ("7", "y = 7", False),
    ],
)
def test_what_is_copied_from_the_question(answer: str, extracted: str, expected: bool) -> None:
    question = "Expand $(x+1)^2$ where $f(x) + 3 = 7$ and $y = 7$."
    assert is_copied(question, answer, extracted) is expected


def test_a_fraction_to_be_reduced_is_copied() -> None:
    question = r"Simplify $\frac{84}{144}$; the half is $\frac{1}{2}$."
    assert is_copied(question, r"\frac{7}{12}", r"x = \frac{84}{144}")
    assert not is_copied(question, r"\frac{7}{12}", r"\frac{14}{24}")
    assert not is_copied(question, r"\frac{84}{144}", "84/144")
    assert not is_copied(question, "0.5", r"\frac12")


def test_a_product_of_matrices_is_copied() -> None:
    product = r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} \begin{pmatrix} 5 \\ 6 \end{pmatrix}"
    truth = r"\begin{pmatrix} 17 \\ 39 \end{pmatrix}"
    for text in (product, product.replace("pmatrix", "bmatrix"), f"({product})", f"1.0{product}"):
        assert is_copied(f"Compute ${product}$.", truth, text)
    assert not is_copied(f"Compute ${product}$.", truth, truth)
    assert not is_copied(f"Compute ${product}$.", product, product)
