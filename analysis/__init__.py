"""Analyses of finished or running runs: they read run directories, and some sample with the engine.

An analysis is a module with `run(paths: list[Path], out: Path, **options)`, which reads the
run directories, writes its tables, figures and part of summary.json to `out` and prints their
paths; its `add_options(parser)`, where it has one, names the options. A line here is all that
`python -m analysis` needs.
"""

# name on the command line: (module, what it draws)
ANALYSES = {
    "ground-truth": (
        "analysis.ground_truth",
        "the values of sampled states by 256 fresh continuations each, with the engine",
    ),
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
