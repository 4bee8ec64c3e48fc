"""`report`: one self-contained HTML page on a few runs, for a browser without a network.

page.py      the page, its options and sections     rollouts.py   what the viewer shows, as JSON
results.py   tables of results and environments     answers.py    its problems' right answers
costs.py     where time and tokens went             others.py     what other analyses have found
charts.py    figures of the metrics                 markup.py     pieces of HTML
web/         the look, and the viewer's script
"""

from analysis.report.page import add_options, run

__all__ = ["add_options", "run"]
