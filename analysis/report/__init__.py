"""`report`: one self-contained HTML page on a few runs, for a browser without a network.

page.py      the page, its options and sections     rollouts.py   what the viewer shows, as JSON
results.py   tables of results and environments     run_files.py  what it reads of a run
costs.py     where time and tokens went             truths.py     the truth of its states
charts.py    figures of the metrics                 answers.py    its problems' right answers
markup.py    pieces of HTML                         others.py     what other analyses have found
web/         the look, and the viewer's script
"""

from analysis.report.page import add_options, run

__all__ = ["add_options", "run"]
