"""pass@1 and pass@k of the engine's policy on problems."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vineppo.config.schema import EvaluationConfig
from vineppo.distributed import gather, num_replicas, replica
from vineppo.metrics import evaluation_summary, merged_grading
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler, submit_rollouts


def evaluation_sampler(sampler: Sampler, evaluation: EvaluationConfig) -> Sampler:
    """`sampler` with the evaluation's temperature and top_p, and the training's token budget."""
    sampling = replace(sampler.sampling, temperature=evaluation.temperature, top_p=evaluation.top_p)
    return replace(sampler, sampling=sampling)


def evaluate_policy(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    iteration: int,
    progress: Progress,
) -> dict[str, Any]:
    """What `evaluations/iter_….json` holds; a response is correct when its reward is above 0.5."""
    sampler.grader.metrics()  # what follows is this evaluation's alone
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    pending = submit_rollouts(sampler, mine_P, num_samples, (iteration, "evaluate"))
    while sampler.engine.num_unfinished:
        sampler.engine.step()
        progress.tick(sampler.engine)
    mine = [
        (
            rollout.problem.id,
            rollout.reward > 0.5,
            rollout.finish_reason == "length",
            len(rollout.response_ids),
        )
        for rollout in pending.settle().values()
    ]
    outcomes = [outcome for share in gather(mine)[::each] for outcome in share]
    num_correct = {prompt.problem.id: 0 for prompt in prompts_P}
    for problem_id, is_correct, _, _ in outcomes:
        num_correct[problem_id] += is_correct
    num_correct_P = list(num_correct.values())
    return {
        **evaluation_summary(num_correct_P, num_samples),
        "num_problems": len(prompts_P),
        "samples_per_problem": num_samples,
        "temperature": sampler.sampling.temperature,
        "top_p": sampler.sampling.top_p,
        "truncated_frac": sum(is_cut for _, _, is_cut, _ in outcomes) / len(outcomes),
        **merged_grading(gather(sampler.grader.metrics())[::each]),
        "response_length_mean": sum(length for _, _, _, length in outcomes) / len(outcomes),
        "problem_ids": list(num_correct),
        "num_correct_P": num_correct_P,
    }
