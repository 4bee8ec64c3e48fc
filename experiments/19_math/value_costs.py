"""value_costs.py RUN OUT.csv: what values of a run's states cost, in sampled tokens and seconds.

Of eight problems' rollouts of its first iteration, by the policy that it started from, as training
makes them, but one after another and each alone. What is cheap enough to be made twice (responses,
the policy's and the critic's pass) is timed at the second time. Prefixes that the engine holds from
the round before are not computed again.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sampling.continuations import sample_continuations
from analysis.sampling.policies import open_policies
from analysis.sampling.returns import request_of
from analysis.sampling.rollouts import RolloutState, groups_of, read_saved, sample_responses
from vineppo.models import can_pack
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import StateValue
from vineppo.values import build_predictors, read_policy

NUM_PROBLEMS = 8
run, out = map(Path, sys.argv[1:])
table: list[dict[str, Any]] = []


def timed(what: str, do: Callable[..., Any], *given: Any) -> Any:
    started = time.perf_counter()
    found = do(*given)
    table.append({"what": what, "tokens": 0, "seconds": round(time.perf_counter() - started, 3)})
    print(table[-1], flush=True)
    return found


with open_policies([run], seed=0) as policies:
    config, sampler, loaded = policies.config, policies.sampler, policies.loaded
    groups = groups_of(read_saved(run, 1, policies.problem))[:NUM_PROBLEMS]
    rollouts = [rollout for group in groups for rollout in group]
    prompts = [policies.prompt(group[0].problem.id) for group in groups]
    predictors: dict[str, Any] = {one.name: one for one in build_predictors(config, loaded)}
    drawn, critic = predictors["drawn"], predictors["critic"]
    states = {
        drawn.state_key(rollout, step): RolloutState(rollout, step).after()
        for rollout in rollouts
        for step in range(len(rollout.spans_S))
    }

    def responses() -> Any:
        return sample_responses(sampler, prompts, len(groups[0]), ("costs",), "responses")

    def values(number: int) -> dict[Any, StateValue]:
        requests = [
            request_of(state, number, ("costs", number), key) for key, state in states.items()
        ]
        return {
            request.tag: StateValue(
                tuple(one.reward.result() for one in found),
                sum(len(one.completion.token_ids) for one in found),
            )
            for request, found in sample_continuations(sampler, requests)
        }

    responses()
    found = timed("responses", responses)
    table[-1]["tokens"] = sum(len(one.response_ids) for one in found)
    for number in (9, 3, 1):
        found = timed(f"K = {number}", values, number)
        table[-1]["tokens"] = sum(value.num_tokens for value in found.values())
    drawn.merge(rollouts, [found])
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).eval()
    device = next(module.parameters()).device

    def policy_pass(*names: str) -> None:
        (logprobs,) = read_policy(
            rollouts, [predictors[name] for name in names],
            lambda batch, options: TokenScores(**module(batch, options)),
            ForwardOptions(config.sampling.temperature), lambda scores: [scores.logprobs_BT],
            config.optimization.logprobs_micro_batch_size, device, can_pack(loaded.model),
        )  # fmt: skip
        for rollout, logprobs_T in zip(rollouts, logprobs, strict=True):
            rollout.tokens_T["trainer_logprobs"] = logprobs_T

    with policies.engine_asleep():
        policy_pass()
        timed("the policy's pass", policy_pass)
        timed("the policy's pass with entropies", policy_pass, "uncertainty")
        timed("the policy's pass with entropies and states", policy_pass, "probe")
        for name in ("group", "shrunk", "smoothed", "uncertainty", "probe", "asked"):
            if name in predictors:
                timed(name, predictors[name].estimate, rollouts)
        for name in ("uncertainty", "probe"):
            timed(f"{name}, learning", predictors[name].update, rollouts, 1)
        critic.start(None)
        critic.estimate(rollouts)
        timed("critic", critic.estimate, rollouts)
        for rollout in rollouts:
            length = len(rollout.response_ids)
            rollout.tokens_T["rewards"] = (0.0,) * (length - 1) + (rollout.reward,)
        critic.prepare_update(rollouts)
        timed("critic, learning", critic.update, rollouts, 1)
about = {"num_rollouts": len(rollouts), "num_states": sum(len(one.spans_S) for one in rollouts)}
pd.DataFrame(table).assign(**about, num_distinct_states=len(states)).to_csv(out, index=False)
