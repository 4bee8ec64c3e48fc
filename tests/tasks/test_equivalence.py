r"""Which texts are the same mathematics as a true answer, and which copy the question.

A line of the table is a true answer, == or !=, and texts that are the same or not, parted by ;;.
VECTOR stands for `\begin{pmatrix} 1 \\ 2 \end{pmatrix}`.
"""

import pytest

from vineppo.tasks.equivalence import compare_at_once, is_equivalent
from vineppo.tasks.grading import is_copied

VECTOR = r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"
TABLE = r"""
# the same
18 == 18 ;; 18.00
0.5 == .5
-3 == -3.0
\frac{1}{2} == 0.5 ;; 1/2
1/2 == $1/2$
\frac{3}{4} == \frac34
C == \text{(C)}
\text{Evelyn} == Evelyn
x^2+1 == 1 + x^2
2\sqrt{3} == \sqrt{12}
6 - 5i == -5i+6
\left( 3, \frac{\pi}{2} \right) == (3,\frac{\pi}{2})
3,5,7 == 7,3,5
10,080 == 10080
x=5 == 5
90^\circ == 90
VECTOR == \begin{pmatrix}1\\2\end{pmatrix}
3\frac{1}{2} == 3.5
2x+2 == 2(x+1)
69, 84 == 84,69.0
27, 54, 108, 135 == 27,54,108,135
(1,8,19), (2,7,13) == (2,7,13), (1, 8, 19)
\frac{1}{2}, -2 == -2,0.5
f(x)=x, f(x)=2-x == f(x)=2-x, f(x)=x
90^{\circ}, 60^{\circ} == 60,90
1, 3, 5 == \{5, 3, 1\}
1, 3 == 2 \pm 1
\frac{7}{5} + \frac{1}{5} i. == \frac{7+i}{5}
2007 + \frac\pi 2 == \frac{\pi}{2} + 2007
\text{A,D} == A, D
\text{A, D} == D, A
1234 == 1 234
12345 == 12{,}345
111, \! 111, \! 111 == 111\,111\,111
\dfrac{2469}{20,\!000} == \frac{2469}{20000}
237.5\% == 237.5
12.5\% == 12.5 \%
x+1 == x+1.
7 == 7,
\text{1:03 PM} == 1:03 p.m.
\text{A5}_{11} == A5_{11}
43_5. == 43
0.56 = 56\% == 56\%
70, 110 == 70,110
x + 11 == x+11, 11+x
\frac{3}{2} == \\frac{3}{2}
24 == x = 24 ;; 4! = 24 ;; 4!=24 ;; 24 \text{ cm}^2 ;; 24 square inches
6 == 6 cm ;; 6 kg ;; 6 mph ;; 6 dollars ;; 6 hours ;; 6 months ;; 6 roots ;; 6 logs ;; 6 cc
1234567x == 1 234 567x
-6 == $-6
15000 == 1.5 \times 10^4
3.5 == 3 1/2
\frac{1}{3} == 0.333333
(-\infty, 3) \cup (3, \infty) == \mathbb{R} \setminus \{3\}
# not the same
18 != 81
0.1 != 0.10000000000000001
\frac{1}{2} != 0.51 ;; 0.5\%
C != \text{(D)}
x^2+1 != x^2-1
1,-2 != 1
4 != 2,4 ;; 5=4
3 != 4\text{ or }3
(1,2) != [1,2] ;; (3-2,1+1)
1 != 3/0
7 != }{ ;; 100 \bmod 7 ;; 3 4
26 != 1000(26)
69, 84 != 69 ;; 69, 84, 85 ;; 69, 69
3, 3 != 3, 4
(1,2), (3,4) != (2,1), (3,4)
10,080 != 80,10
9 != (4+20+7+8-15)/4
26000 != 1000(26)
24 != 4! ;; x = 20 + 4 ;; 5!=24 ;; x!=24
5 != 20/4 ;; 8x+1\equiv 5 \pmod{12} ;; 5 million ;; 5x
1024 != 2^{10}
1, 2 != 2-1, 2
VECTOR != \begin{pmatrix} 3-2 \\ 2 \end{pmatrix}
0 != \{x \mid x \ne 0\}
\frac{7}{5} + \frac{1}{5} i. != 7
2007 + \frac\pi 2 != 2007
34 != 3 4 ;; 3\,4
123 != 1 2 3
1234 != 12 34
6 != --6 ;; 6 pi ;; 6 sqrt ;; 6 log ;; 6 sin ;; 6 fifths ;; 6 eighths ;; 6 root two ;; 6 xy
6 != 6 zero
7\pi != 3 4\pi
x+1 != 2=x+1
2 != 2m-m
\text{CBAD} != ABCD
1011_2 != 1011_3
# several answers answer as many truths
6 != x = 1 \text{ or } x = 6 ;; x = 6; x = 1 ;; 1, 2, x = 6 ;; x = 1 \quad x = 6
6 != x = 1 \quad y = 6 ;; x = 1 \\ y = 6 ;; x = 1 \land y = 6 ;; x = 1 \wedge y = 6
6 != x = 1 \vee y = 6 ;; x = 1 & y = 6 ;; x = 1 \& y = 6 ;; x = 1\text{, so }y = 6 ;; x = 1 ∨ y = 6
6 != x = 1\;\;\; y = 6 ;; x = 1\text{ then }y = 6 ;; x = 1 \hspace{1cm} y = 6
6 != x = 1 \newline y = 6 ;; x = 1\\y = 6 ;; x = 1 | y = 6 ;; x = 1 so y = 6 ;; x = 1 : y = 6
6 != x = 1 \lor x = 6 ;; x = 1 / x = 6 ;; x = 1 x = 6 ;; x = 1 - x = 6 ;; 1. x = 2 2. x = 6
\sqrt{3} != x = \sqrt{2} \vee x = \sqrt{3} ;; p = \sqrt{2} \land q = \sqrt{3}
x+1 != f(x) = x \vee f(x) = x+1 ;; y = 2x, z = x+1
(3,4) != A = (1,2) B = (3,4) ;; (x,y) = (1,2) \text{ or } (x,y) = (3,4) ;; A=(1,2), B=(3,4)
6 == V = 2xy = 6 ;; A = \frac{1}{2}bh = 6 ;; AB = BC + CD = 6 ;; f(x) = x^2 + x = 6 ;; n = k! = 6
6 == A = \frac{1}{2} \times \text{base} \times \text{height} = 6 ;; 2x = 12 \implies x = 6
6 == \text{Total} = 2 \text{ bags} \times 3 \text{ apples} = 6 ;; x = a + \sqrt{b} c = 6 ;; 6 = x
6 == x = 6, x = 6.0 ;; V = 2xy = 6
-4 != k = -2, \quad q = -4
4 != a = 4, r = 0
\sqrt{2} != a = \sqrt{3}, b = \sqrt{2}
(1,2), (3,4) == A=(1,2), B=(3,4)
1, 6 == x = 1 \text{ or } x = 6
x = \pm 2 == x = 2 \text{ or } x = -2
\pm 2 == x = 2, x = -2
1234 == x = 1,234
(1,2) == x=1, y=2
(1,2,\frac{1}{2}) == a=1, \quad b=2, \text{ and } c=0.5
(1,2) != x=2, y=1 ;; y=1, x=2 ;; x=1, x=2
# numbers compare exactly or relatively
\frac{1}{2^{99}} != \frac{1}{2^{98}} ;; 0.0
\frac{1}{2^{99}} == 2^{-99}
\frac{1}{4194304} != 0.0
\frac{1}{4194304} == 0.000000238419
1.23\times 10^{-8} != 0 ;; 1.24 \times 10^{-8}
1.23\times 10^{-8} == 0.0000000123
2^{-9999}\pi != 2^{-9998}\pi
x + 2^{-99} != x + 2^{-98}
\{2^{-99}, 3\} != \{2^{-98}, 3\}
\begin{pmatrix} 0 \\ 2^{-99}x \end{pmatrix} != \begin{pmatrix} 0 \\ 0 \end{pmatrix}
\begin{pmatrix} 0 \\ 2 \end{pmatrix} != \begin{pmatrix} 0.00000001 \\ 2 \end{pmatrix}
\begin{pmatrix} 1/3 \\ 2 \end{pmatrix} == \begin{pmatrix} 0.333333 \\ 2 \end{pmatrix}
2^{100} != 2^{100}+1
\frac{1}{3} != 0.33333 ;; 0.333334
\frac{2}{3} == 0.6666666666666666
\frac{1000}{7} == 142.857
\sqrt{2} == 1.41421
\sqrt{2} != 1.4142
5 != 4.999999 ;; 5 \approx 5.4
4194304 != 4.19430 \times 10^6
\frac{3}{10} == 0.30000000000000004
25\pi == A = 25\pi \approx 78.54 ;; 25\pi ≈ 79
78.54 == 25\pi \approx 78.54
\frac{1}{3} == \frac{1}{3} \approx 0.33
25\pi != 25\pi \approx 78.55 ;; 24\pi \approx 25\pi ;; 78.54
1 != 1 \approx 2 \approx 3
# a variable is no unit
\frac{1}{3}\pi r^2 h != \frac{1}{3}\pi r^2
\frac{1}{3}\pi r^2 h == \frac{\pi r^2 h}{3}
2s+3t != 2s+3
3t != 3
\pi ab != \pi
x^2 m != x^2
36\pi == 36\pi m ;; 36\pi \text{ cm}^2 ;; 36\pi square units
2\sqrt{3} == 2\sqrt{3} cm
2x == 2x \text{ cm} ;; 2x cm ;; 2x apples
12 != 12\text{k}
# other notations
[1,\infty) == [1,+\infty)
(-\infty,2) \cup (3,\infty) == (-\infty,+2) \cup (3,+\infty)
[1,\infty) != [2,+\infty)
12 == \text{Total Cost} = \$12
12 != \text{Total Cost} = \$13 ;; 2 + 3 \text{ apples} = 12
VECTOR == \mathbf{v} = VECTOR ;; \begin{pmatrix} 1 \\[8pt] 2 \end{pmatrix}
VECTOR == \begin{bmatrix} 1 \\[0.5 em] 2 \\ \end{bmatrix}
VECTOR == \begin{pmatrix} 1 \\*[8pt] 2 \end{pmatrix}
\mathbf{v} = VECTOR == VECTOR
VECTOR != \begin{pmatrix} 1 & 2 \end{pmatrix} ;; \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix} VECTOR
VECTOR != \text{all of the above}
\log_2 3 == \log_2(3)
\log_2 3 != \log_3(2)
\text{odd} == Odd
\text{odd} != even
\text{Yes} == \textbf{yes}.
\text{Yes} != No
77 == €77 ;; £77 ;; 77€ ;; \text{€}77 ;; 77 ₽ ;; \$77
77 != €78
73 == \bf 73 ;; {\bfseries 73} ;; \boldsymbol{73} ;; {\Large 73} ;; \color{red}{73}
73 == \underline{73} ;; \fbox{73}
25\pi == 25\pi \text{ cm}^2 \approx 78.54 \text{ cm}^2 ;; 25\pi \simeq 78.54
(1,2) == \{x=1, y=2\}
x+1 == {\it x}+{1}
\frac{\sqrt{3}}{2} == \sin 60^\circ
\frac{\sqrt{3}}{2} != \sin 60
\cos 70^\circ == \sin(10^{\circ} + 10°)
-\sqrt{3} == \frac{\sin 80^\circ(-1+4\cos 80^\circ)}{\cos 80^\circ}
1 != 1_000
"""
LINES = [line for line in TABLE.strip().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("line", LINES)
def test_the_table(line: str) -> None:
    sign = " == " if " == " in line else " != "
    answer, texts = line.replace("VECTOR", VECTOR).split(sign)
    for text in texts.split(" ;; "):
        assert is_equivalent(answer, text) is (sign == " == "), text


def test_an_empty_text_is_no_answer() -> None:
    assert not is_equivalent("7", "")


def test_a_true_answer_of_many_digits() -> None:
    long = "7" * 5000
    assert compare_at_once(long, "3") is False
    assert compare_at_once(long, f"x = {long}0") is False
    assert compare_at_once(rf"\frac{{{long}}}{{3}}", "0.5") is False
    assert compare_at_once(f"{long}.5", long + ".50") is True


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
