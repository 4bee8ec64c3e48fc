"""Methods of a folder's learning_curves.csv at the costs that these alone all reach.

    python experiments/equal_cost_of.py FOLDER METHOD METHOD...

writes FOLDER/equal_cost_of/METHOD-METHOD.csv, in the columns of equal_cost.csv; differences are
from the first method. In equal_cost.csv itself the cheapest of all methods sets the budgets.
"""

import sys
from dataclasses import replace
from pathlib import Path

from analysis.costs import EQUAL_COST, at_equal_cost
from analysis.frames import in_order
from analysis.learning_curves import CURVES

if __name__ == "__main__":
    folder, methods = Path(sys.argv[1]), sys.argv[2:]
    rows = CURVES.read(folder)
    rows = in_order(
        rows[rows["method"].isin(methods)], ["method", "seed", "iteration"], method=methods
    )
    table = replace(EQUAL_COST, name=f"{'-'.join(methods)}.csv")
    (folder / "equal_cost_of").mkdir(exist_ok=True)
    for path in table.write(folder / "equal_cost_of", at_equal_cost(rows)):
        print(path)
