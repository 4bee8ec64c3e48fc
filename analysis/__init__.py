"""Analyses of finished or running runs: they read run directories, and some sample with the engine.

An analysis is a module, or a FILE.py, with `run(paths: list[Path], out: Path, **options)`. It reads
run directories, writes tables and figures to `out` and returns the lines to print. Its
`add_options(parser)`, where it has one, names the options.
"""

# Name on the command line: what it does.
ANALYSES = {
    "action-ranking": "Rank alternative next steps by critic and continuations, and compare with "
    "their sampled true values.",
    "advise": "Predict from a run's rollouts how noisy each estimator is, and what that costs.",
    "compare": "Compare methods with a --baseline over seeds: effects, intervals, tests.",
    "gradient-variance": "Measure the noise of each estimator's policy gradient on the same "
    "rollouts, and its price.",
    "ground-truth": "Sample 256 fresh continuations of each state with the engine.",
    "kl-efficiency": "Plot pass@1 against the exact KL to the starting policy along training.",
    "learning-curves": "Plot pass@1 by iteration, time and tokens over seeds, with costs and "
    "phases.",
    "report": "Write one HTML page: results, curves, costs, figures, and rollouts step by step.",
    "value-accuracy": "Score critic, Monte-Carlo and group values against the ground truth.",
}
