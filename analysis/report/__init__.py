"""`report`: one self-contained HTML page on a few runs, for a browser without a network.

page.py       the page, its sections, what other analyses came to
curves.py     figures and tables of what the runs logged
rollouts.py   what the viewer shows, as JSON
web/          the look, and the viewer's script
"""

from analysis.report.page import add_options, run

__all__ = ["add_options", "run"]
