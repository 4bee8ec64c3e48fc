"""svamp.py SVAMP.json DIR: SVAMP (arXiv:2103.07191) as svamp_{train,test}.jsonl, in GSM8K's fields.

The first 700 problems train, the last 300 test. A solution is a line a calculation, and the answer:
"8 + 2 = 10", "10 - 3 = 7", "#### 7".
"""

import json
import re
import sys
from fractions import Fraction
from pathlib import Path

CALCULATION = re.compile(r"\( ([\d.]+) ([-+*/]) ([\d.]+) \)")
NUM_TRAIN = 700


def solution(equation: str, answer: float) -> str:
    lines = []
    while found := CALCULATION.search(equation):
        left, sign, right = found.groups()
        a, b = Fraction(left), Fraction(right)
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
        lines.append(f"{plain(a)} {sign} {plain(b)} = {plain(value)}")
        equation = equation[: found.start()] + str(float(value)) + equation[found.end() :]
    return "\n".join([*lines, f"#### {plain(Fraction(answer))}"])


def plain(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):g}"


problems = json.loads(Path(sys.argv[1]).read_text())
rows = [
    {
        "question": f"{p['Body'].strip().rstrip('.')}. {p['Question'].strip()}",
        "answer": solution(p["Equation"], p["Answer"]),
    }
    for p in problems
]
for name, part in (("train", rows[:NUM_TRAIN]), ("test", rows[NUM_TRAIN:])):
    path = Path(sys.argv[2]) / f"svamp_{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in part))
