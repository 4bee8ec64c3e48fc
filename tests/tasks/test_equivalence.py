import pytest

from vineppo.tasks.equivalence import compare_at_once, is_equivalent


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
        ("26000", "1000(26)"),
        ("24", "(2)(3) (4)"),
        ("2x+2", "2(x+1)"),
        ("69, 84", "84,69.0"),
        ("27, 54, 108, 135", "27,54,108,135"),  # no thousands
        ("(1,8,19), (2,7,13)", "(2,7,13), (1, 8, 19)"),
        (r"\frac{1}{2}, -2", r"-2,0.5"),
        ("f(x)=x, f(x)=2-x", "f(x)=2-x, f(x)=x"),
        (r"90^{\circ}, 60^{\circ}", "60,90"),
        ("1, 3, 5", r"\{5, 3, 1\}"),  # not item by item, but as math-verify's set
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
    ],
)
def test_other_mathematics(answer: str, extracted: str) -> None:
    assert not is_equivalent(answer, extracted)


def test_what_is_decided_at_once() -> None:
    assert compare_at_once("18", "18.00") is True
    assert compare_at_once("18", "17") is False
    assert compare_at_once("0.5", "1/2") is None
    assert compare_at_once("1e3", "1000") is None  # e may be Euler's
    assert compare_at_once("٣", "3") is None  # Decimal would read the Arabic digit
