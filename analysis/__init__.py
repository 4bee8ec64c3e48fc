"""Analyses of finished or running runs. They read run directories by their files and start nothing.

An analysis is a module with `run(runs: list[Run], out: Path) -> None`, which writes its tables and
figures to `out` and prints their paths. A line here is all that `python -m analysis` needs.
"""

# name on the command line: (module, what it draws)
ANALYSES = {
    "learning-curves": (
        "analysis.learning_curves",
        "pass@1 by iteration, training time and sampled tokens: a table and a figure",
    ),
    "report": (
        "analysis.report",
        "one HTML page: curves, costs, the runs, and their last rollouts step by step",
    ),
}
