"""pass@1 and pass@k of the engine's policy."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from vineppo.config.schema import EvaluationConfig
from vineppo.distributed import gather, num_replicas, replica
from vineppo.metrics import evaluation_summary, merged_grading
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler, submit_rollouts
from vineppo.types import Problem


def evaluate_policy(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    evaluation: EvaluationConfig,
    iteration: int,
    progress: Progress,
) -> dict[str, Any]:
    """The content of `evaluations/iter_….json`; rewards above 0.5 are correct.

    The verifier alone gives the rewards. The token budget is the training's.
    """
    how = {key: getattr(evaluation, key) for key in ("temperature", "top_p", "top_k", "min_p")}
    sampler = replace(sampler, sampling=replace(sampler.sampling, **how), scorer=None)
    sampler.grader.metrics()  # drops the counts of training
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    pending = submit_rollouts(sampler, mine_P, evaluation.num_samples, (iteration, "evaluate"))
    sampler.finish(lambda: progress.tick(sampler.engine))
    mine = [
        (r.problem.id, r.reward > 0.5, r.finish_reason == "length", len(r.response_ids))
        for r in pending.settle().values()
    ]
    outcomes = [outcome for share in gather(mine)[::each] for outcome in share]
    _, _, is_truncated, lengths = zip(*outcomes, strict=True)
    num_correct = Counter({prompt.problem.id: 0 for prompt in prompts_P})
    num_correct.update(problem_id for problem_id, is_correct, _, _ in outcomes if is_correct)
    num_correct_P = list(num_correct.values())
    return {
        **evaluation_summary(num_correct_P, evaluation.num_samples),
        "num_problems": len(prompts_P),
        "samples_per_problem": evaluation.num_samples,
        **how,
        "truncated_frac": fmean(is_truncated),
        **merged_grading(gather(sampler.grader.metrics())[::each]),
        "response_length_mean": fmean(lengths),
        "problem_ids": list(num_correct),
        "problems_digest": _digest_of([prompt.problem for prompt in prompts_P]),
        "num_correct_P": num_correct_P,
    }


def _digest_of(problems_P: Sequence[Problem]) -> str:
    """64 bits of questions and answers, which tell sets of problems with the same ids apart."""
    content = json.dumps([(problem.question, problem.answer) for problem in problems_P])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def headline(evaluation: dict[str, Any]) -> dict[str, float]:
    """An evaluation's pass@1 and pass@k for all samples."""
    return {
        name: evaluation[name] for name in ("pass@1", f"pass@{evaluation['samples_per_problem']}")
    }
