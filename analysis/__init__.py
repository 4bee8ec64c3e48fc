"""Analyses of finished or running runs: they read run directories, and some sample with the engine.

An analysis is a module with `run(paths: list[Path], out: Path, **options)`, which reads the
run directories, writes its tables, figures and part of summary.json to `out` and returns the lines
to print, mostly what it wrote; its `add_options(parser)`, where it has one, names the options.
`action-ranking` is in `action_ranking.py`; a line here is all that `python -m analysis` needs.
"""

# name on the command line: what it draws
ANALYSES = {
    "action-ranking": "alternative next steps, ranked by critic and continuations against the "
    "truth, sampled",
    "advantages": "how steps' advantages are spread, the share near zero, and the critical steps",
    "advise": "which estimator a run's rollouts call for: predicted noise by second and token, and "
    "when RLOO is the better buy",
    "compare": "methods against a --baseline over seeds and problems: effect, intervals, tests, "
    "pooled over settings",
    "diversity": "how far training moved the weights, and how alike a problem's answers became",
    "gradient-variance": "the noise of each estimator's policy gradient on the same rollouts, and "
    "what it costs",
    "ground-truth": "the values of sampled states by 256 fresh continuations each, with the engine",
    "kl-efficiency": "pass@1 against the exact KL to the starting policy along training, by method",
    "learning-curves": "pass@1 by iteration, gradient step, time and tokens over seeds; cost of a "
    "target; phases",
    "power": "what scores vary by, and how many seeds and answers a --difference needs",
    "report": "one HTML page: results, curves, costs, other analyses, and the rollouts step by "
    "step",
    "temperature": "final and best pass@1 by the temperatures of training and evaluation, per "
    "algorithm",
    "value-accuracy": "critic, Monte-Carlo and group values against the ground truth: errors, "
    "calibration",
    "value-diagnostics": "a critic's values, advantages and explained variance along the response",
    "value-health": "what learned values knew of the rewards, from the first iteration on",
}
