"""Analyses of finished or running runs. They read run directories by their files and start nothing.

An analysis is a module with `run(paths: list[Path], out: Path) -> None`, which reads the run
directories, writes its tables and figures to `out` and prints their paths. A line here is all that
`python -m analysis` needs.
"""

# name on the command line: (module, what it draws)
ANALYSES = {
    "learning-curves": (
        "analysis.learning_curves",
        "pass@1 by iteration, time and tokens, the seeds of a method as one curve; a summary",
    ),
    "report": (
        "analysis.report",
        "one HTML page: curves, costs, the runs, and their last rollouts step by step",
    ),
    "value-diagnostics": (
        "analysis.value_diagnostics",
        "a critic's values, advantages and explained variance along the response",
    ),
}
