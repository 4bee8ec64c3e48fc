"""TRL's `GRPOTrainer` with VinePPO's advantages (arXiv:2410.01679, section 4).

    VineTrainer(model, reward_funcs, args, train_dataset=rows, credit={
        "kind": "vine", "num_continuations": 3, "segmenter": {"kind": "lines"}})

TRL samples, scores and updates as ever. In between, K continuations of each step boundary get the
reward functions' rewards; their means are the values of the states. `credit`, `grading` and
`engine` are tables as in a config. `scale_rewards` has no effect. TRL's losses are ours, by
`loss_type` and `loss_aggregation` (with `beta` also `kl_aggregation`, and `kl_importance`):

    "grpo"  sequence_mean    "dr_grpo"            fixed_length
    "dapo"  token_mean       "luspo", of tokens   sequence_sum

"dapo" divides by the tokens of the mean update of a generation batch, ours by the update's.
"""

import weakref
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.chat_template_utils import parse_response
from trl.data_utils import is_conversational

from vineppo.config.require import require
from vineppo.config.schema import GradingConfig
from vineppo.credit import token_advantages
from vineppo.credit.vine import ContinuationCredit
from vineppo.engine import Completion, EngineModel, SampleRequest
from vineppo.plugins import Plugin, validated
from vineppo.segment import response_text, token_texts
from vineppo.tasks.grading import Grader
from vineppo.types import (
    MONTE_CARLO,
    FinishReason,
    Problem,
    Rollout,
    StateValue,
    by_problem,
    derive_seed,
    prefix_digest,
)

_Rows = list[dict[str, Any]]  # of the data


class VineTrainer(GRPOTrainer):
    """`GRPOTrainer` with an advantage for every token, [B, T]: that of its step.

    Continuations come from TRL's vLLM or `generate`, or from an `engine` of ours: a second copy of
    the weights, with seeds. `grading` adds our grader to the rewards; rows then need an "answer".
    """

    def __init__(
        self, model: Any, reward_funcs: Any = (), *args: Any, credit: dict[str, Any],
        grading: dict[str, Any] | None = None, engine: dict[str, Any] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.credit = Plugin("credit").parse(credit)
        functions = reward_funcs if isinstance(reward_funcs, list | tuple) else [reward_funcs]
        if grading is not None:
            self.grader = Grader(validated(GradingConfig, grading))
            weakref.finalize(self, self.grader.close)
            functions = [*functions, self.grade]
        super().__init__(model, list(functions), *args, **kwargs)
        self._check(kwargs, engine is not None)
        name, stop_ids = self.model.name_or_path, tuple(self.eos_token_ids)
        known = EngineModel(name, len(self._tokenizer), stop_ids)
        self.engine: Any = engine and Plugin("engine").parse(engine).build(known)

    def _check(self, given: dict[str, Any], has_engine: bool) -> None:
        credit, args, is_lone = self.credit, self.args, self.accelerator.num_processes == 1
        turns = [given.get(name) for name in ("tools", "rollout_func", "environment_factory")]
        require(turns == [None] * 3, "continuations have no tools, rollout_func or environments")
        fits = isinstance(credit, ContinuationCredit) and credit.num_continuations > 0
        fits = fits and credit.states is None and credit.identical_prefixes == "share"
        fits = fits and (is_lone or not credit.compares_rollouts)
        what = "credit must share continuations of all states, and compare rollouts in one process"
        require(fits and not credit.segmenter.reads_entropies, f"{what}, got {credit}")
        is_plain = not (args.top_k or args.min_p) and args.repetition_penalty == 1
        is_plain = is_plain and not hasattr(self.model, "peft_config")
        is_plain = is_plain and not (self.is_deepspeed_enabled or self.is_fsdp_enabled)
        what = "engine must be None with top_k, min_p, a repetition_penalty, adapters or shards"
        require(is_plain or not has_engine, what)

    def grade(self, prompts: Any, completion_ids: Any, answer: Any, **_: Any) -> list[float]:
        """Our grader in the form of TRL's reward functions."""
        rewards = []
        for prompt, ids, truth in zip(prompts, completion_ids, answer, strict=True):
            question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
            text, full = response_text(self._tokenizer, ids), token_texts(self._tokenizer, ids)
            reason: FinishReason = "stop" if ids[-1] in self.eos_token_ids else "length"
            problem = Problem("", question, truth)
            rewards.append(self.grader.submit(problem, text, reason, ids, "".join(full)))
        return [reward.result() for reward in rewards]

    def _calculate_rewards(self, inputs: Any, prompts: Any, texts: Any, ids: Any) -> torch.Tensor:
        found: torch.Tensor = super()._calculate_rewards(inputs, prompts, texts, ids)
        self.sampled = ids, self._summed(found, len(ids))
        return found

    def _summed(self, found_BF: torch.Tensor, size: int) -> list[float]:
        """This process's rewards, of the `found` of all processes and functions."""
        found_BF = found_BF[self.accelerator.process_index * size :][:size]
        is_rewarded = not found_BF.isnan().all(1).any()
        require(is_rewarded, "reward_funcs must reward every response, all returned None for one")
        return list((found_BF * self.reward_weights.to(found_BF)).nansum(1).tolist())

    def _generate_and_score_completions(self, inputs: _Rows) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        require("pixel_values" not in batch, "prompts must have no images: states are token ids")
        if not self.model.training:
            return batch
        rollouts = self._rollouts(batch)
        keys = [
            [(one.problem.id, prefix_digest(one.prefix_ids(i))) for i in range(len(one.spans_S))]
            for one in rollouts
        ]
        states = {key: (b, i) for b, keys_S in enumerate(keys) for i, key in enumerate(keys_S)}
        returns = self._returns(inputs, rollouts, states)
        for rollout, keys_S in zip(rollouts, keys, strict=True):
            rollout.returns_S[MONTE_CARLO] = [StateValue(returns[key], 0) for key in keys_S]
            rollout.steps_S[f"values/{MONTE_CARLO}"] = [fmean(returns[key]) for key in keys_S]
        groups = [token_advantages(self.credit, group) for group in by_problem(rollouts)]
        rows = [torch.tensor(advantages_T) for group in groups for advantages_T in group]
        batch["advantages"] = torch.zeros_like(batch["completion_ids"], dtype=torch.float32)
        for b, advantages_T in enumerate(rows):
            batch["advantages"][b, : len(advantages_T)] = advantages_T
        means = [advantages_T.mean().item() for advantages_T in rows]
        self._logs["advantages"].extend(gather_object(means))  # in place of GRPO's
        self._metrics["train"]["vine/value_mean"].append(fmean(map(fmean, returns.values())))
        return batch

    def _rollouts(self, batch: dict[str, Any]) -> list[Rollout]:
        """The batch's rows, with their steps and rewards."""
        first = self.accelerator.process_index * len(batch["completion_ids"])
        engine_BT, rollouts = batch.get("sampling_per_token_logps"), []
        for b, (ids, reward) in enumerate(zip(*self.sampled, strict=True)):
            prompt_ids = batch["prompt_ids"][b][batch["prompt_mask"][b].bool()].tolist()
            number, index = divmod(first + b, self.num_generations)
            logprobs_T = None if engine_BT is None else tuple(engine_BT[b, : len(ids)].tolist())
            spans_S = self.credit.segmenter.spans(token_texts(self._tokenizer, ids), logprobs_T)
            rollouts.append(Rollout(
                tuple(prompt_ids), tuple(ids), problem=Problem(str(number), "", ""),
                rollout_index=index, logprobs_T=logprobs_T or (), finish_reason="stop", text="",
                reward=reward, spans_S=spans_S, values_from=MONTE_CARLO,
                tokens_T={"rewards": [0.0] * (len(ids) - 1) + [reward]},
            ))  # fmt: skip
        return rollouts

    def _returns(self, inputs: _Rows, rollouts: list[Rollout], states: Any) -> dict[Any, Any]:
        """K rewards of each state, by its key; `states` has its rollout and step."""
        size, stream = self.credit.num_continuations, (self.args.seed, self._step, "values")
        asked = [
            (b, rollouts[b].prefix_ids(i), SampleRequest(
                (*rollouts[b].prompt_ids, *rollouts[b].prefix_ids(i)),
                self.max_completion_length - rollouts[b].spans_S[i].start,
                self.args.temperature, self.args.top_p, derive_seed(*stream, *key, k), False,
            ))
            for key, (b, i) in states.items() for k in range(size)
        ]  # fmt: skip
        # `generate`, TRL's vLLM and its rewards may be collective: every process asks for as many.
        asked += asked[:1] * (max(gather_object([len(asked)])) - len(asked))
        found = self._sample([request for _, _, request in asked])
        responses = [
            [*prefix_ids, *ids[: request.max_tokens]]  # the sample of a smaller budget
            for (_, prefix_ids, request), ids in zip(asked, found, strict=True)
        ]
        rewards: list[float] = []
        for start in range(0, len(asked), len(inputs)):
            part = slice(start, start + len(inputs))
            rows, ids = [inputs[b] for b, _, _ in asked[part]], responses[part]
            prompts = [row["prompt"] for row in rows]
            scored = super()._calculate_rewards(rows, prompts, self._texts(prompts, ids), ids)
            rewards += self._summed(scored, len(rows))
        self._pending_extra_logs.clear()  # TRL logs rollouts alone
        self._pending_metrics.clear()
        return {key: tuple(rewards[n * size :][:size]) for n, key in enumerate(states)}

    def _texts(self, prompts: list[Any], ids: list[list[int]]) -> Any:
        """The completions as TRL gives them to its reward functions."""
        decoded = self.processing_class.batch_decode(ids, skip_special_tokens=True)
        if not is_conversational({"prompt": prompts[0]}):
            return decoded
        if any(getattr(self._tokenizer, f"response_{x}", None) for x in ("template", "schema")):
            return [[parse_response(self._tokenizer, each)] for each in ids]
        return [[{"role": "assistant", "content": text}] for text in decoded]

    def _sample(self, requests: list[SampleRequest]) -> list[Sequence[int]]:
        if self.engine is None:  # without vLLM as many at once as TRL samples rollouts
            prefixes = [list(request.prefix_ids) for request in requests]
            size = len(prefixes) if self.use_vllm else len(self.sampled[0])
            parts = [prefixes[i : i + size] for i in range(0, len(prefixes), size)]
            num = self.credit.num_continuations
            return [ids for x in parts for ids in self._generate_single_turn(x, None, {}, num)[0]]
        model, engine = self.accelerator.unwrap_model(self.model), self.engine
        engine.wake()
        engine.load_weights(model.named_parameters(remove_duplicate=False))
        found: dict[int, Completion] = {}
        for number, request in enumerate(requests):
            engine.submit(request, partial(found.__setitem__, number))
        while engine.num_unfinished:
            engine.step()
        engine.sleep()
        return [found[number].token_ids for number in range(len(requests))]
