"""`report`: one self-contained HTML page on a few runs, for a browser without a network."""

from analysis.report.page import add_options, run

__all__ = ["add_options", "run"]
