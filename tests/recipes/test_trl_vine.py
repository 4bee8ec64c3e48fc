"""VinePPO inside TRL: advantages and losses against ours, on the same rollouts."""

import json
import sys
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from support.engines import MODEL
from support.processes import run
from support.rollouts import CPU, changed

from vineppo.batching import collate
from vineppo.credit import token_advantages
from vineppo.credit.vine import broadcast, vine_advantages
from vineppo.errors import UserError
from vineppo.minibatches import UpdateSizes
from vineppo.models import ASSETS, load_model
from vineppo.rollouts import Prompt, Sampler, finished_rollout, graded
from vineppo.engine import Completion
from vineppo.segment.token_texts import steps_of
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import MONTE_CARLO, by_problem
from vineppo.update import policy_objective
from vineppo.values import build_predictors

pytest.importorskip("trl", reason="TRL is not installed (`make setup` brings it)")
POLICY = str(ASSETS / MODEL.partition(":")[2])
CREDIT = {"kind": "vine", "num_continuations": 3, "segmenter": {"kind": "lines"}}
ENGINE = {"kind": "transformers", "dtype": "float32", "max_model_len": 128}
NUM = 4  # rollouts of a prompt


def built(folder, problems, rewards=(), num_updates=1, **more):
    """A trainer of two prompts an iteration."""
    from datasets import Dataset
    from trl import GRPOConfig

    from vineppo.recipes.trl_vine import VineTrainer

    options = more.pop("options", {})
    arguments = GRPOConfig(
        str(folder), use_cpu=True, bf16=False, report_to="none", save_strategy="no", max_steps=3,
        per_device_train_batch_size=2 * NUM // num_updates, steps_per_generation=num_updates,
        num_generations=NUM, max_completion_length=48, logging_steps=1, disable_dropout=True,
        disable_tqdm=True, **options,
    )  # fmt: skip
    rows = [{"prompt": f"{p.question}\n", "answer": p.answer} for p in problems]
    if "prompts" in more:
        rows = [{"prompt": prompt} for prompt in more.pop("prompts")]
    trainer = VineTrainer(
        POLICY, rewards, arguments, train_dataset=Dataset.from_list(rows),
        **{"credit": CREDIT, **more},
    )  # fmt: skip
    return trainer, [row for row in rows[:2] for _ in range(NUM)]


@pytest.fixture(scope="module")
def problems(config):
    return load_task(config.task).train_P[:6]


def responses_of(batch):
    """The ids and the advantages of every row, without padding."""
    lengths = batch["completion_mask"].sum(1).tolist()
    for ids, advantages_T, length in zip(
        batch["completion_ids"].tolist(), batch["advantages"].tolist(), lengths, strict=True
    ):
        assert not any(advantages_T[length:])
        yield tuple(ids[:length]), advantages_T[:length]


def test_advantages_are_ours(tmp_path, config, problems):
    """With our engine and grader TRL's rollouts get the very numbers that our trainer gives them."""
    config = replace(config, seed=5, credit=replace(config.credit, num_continuations=3))
    grading = {"extraction": "hash", "num_workers": 1}
    trainer, rows = built(
        tmp_path, problems, grading=grading, engine=ENGINE, options={"seed": config.seed}
    )
    found = list(responses_of(trainer._generate_and_score_completions(rows)))
    loaded = load_model(MODEL, "float32", "sdpa")
    with Grader(config.task.grading) as grader:
        engine = trainer.engine
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, config.seed)
        rollouts = []
        for row, (ids, _) in enumerate(found):
            problem = replace(problems[row // NUM], id=str(row // NUM))
            prompt = Prompt(problem, tuple(loaded.tokenizer(rows[row]["prompt"])["input_ids"]))
            reason = "stop" if ids[-1] in loaded.engine_model.stop_ids else "length"
            whole = graded(sampler, prompt, (), row % NUM, Completion(ids, (), reason))
            rollout = finished_rollout(sampler, prompt, whole)
            rollout.reward = whole.reward.result()
            rollout.spans_S = steps_of(rollout, config.credit.segmenter, loaded.tokenizer)
            rollout.tokens_T["rewards"] = (*[0.0] * (len(ids) - 1), rollout.reward)
            rollout.values_from = MONTE_CARLO
            rollouts.append(rollout)
        (predictor,) = build_predictors(config, loaded)
        stream = predictor.open_stream(sampler, 0)
        for rollout in rollouts:
            stream.submit(rollout)
        sampler.finish()
        predictor.merge(rollouts, [stream.settle()])
    ours = [x for group in by_problem(rollouts) for x in token_advantages(config.credit, group)]
    assert len({rollout.reward for rollout in rollouts}) == 2
    for (_, theirs_T), ours_T in zip(found, ours, strict=True):
        assert theirs_T == pytest.approx(ours_T, abs=1e-6)


@pytest.mark.parametrize("is_chat", [False, True])
def test_values_are_means_of_trls_rewards(is_chat, tmp_path, problems, monkeypatch):
    """Continuations of `generate`, two reward functions with weights, messages or text."""
    called = []

    def length(completion_ids, completions, **_):
        called.append([tuple(ids) for ids in completion_ids])
        assert all(isinstance(text, list) == is_chat for text in completions)
        return [len(ids) / 10 for ids in completion_ids]

    def odd(completion_ids, log_metric, **_):
        log_metric("odd", 1.0)
        return [sum(ids) % 2 if len(ids) % 3 else None for ids in completion_ids]

    prompts = [f"{p.question}\n" for p in problems]
    chat = [[{"role": "user", "content": prompt}] for prompt in prompts]
    trainer, rows = built(
        tmp_path, problems, [length, odd], prompts=chat if is_chat else prompts,
        options={"reward_weights": [1.0, 2.0], "max_grad_norm": 1.0},
    )  # fmt: skip
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    monkeypatch.setattr(trainer.processing_class, "chat_template", template)

    def reward(ids):
        return len(ids) / 10 + 2 * (sum(ids) % 2 if len(ids) % 3 else 0)

    found = list(responses_of(trainer._generate_and_score_completions(rows)))
    first, *others = called
    assert [ids for ids, _ in found] == first
    sampled = iter([ids for ids_B in others for ids in ids_B])
    values = {}
    for row, (ids, _) in enumerate(found):
        for start in starts_of(trainer, ids):
            if (key := (row // NUM, ids[:start])) not in values:
                of_state = [next(sampled) for _ in range(3)]
                assert all(x[:start] == ids[:start] and len(x) <= 48 for x in of_state)
                values[key] = fmean(map(reward, of_state))
    assert next(sampled, None) is None
    for row, (ids, advantages_T) in enumerate(found):
        starts = starts_of(trainer, ids)
        steps = vine_advantages([values[row // NUM, ids[:start]] for start in starts], reward(ids))
        spans_S = trainer.credit.segmenter.spans(texts(trainer, ids))
        assert advantages_T == pytest.approx(broadcast(steps, spans_S), abs=1e-5)
    assert trainer._metrics["train"]["odd"] == [1.0]  # of rollouts alone
    assert list(trainer._logs["advantages"]) == pytest.approx([fmean(x) for _, x in found])


def texts(trainer, ids):
    return [trainer.processing_class.decode([i]) for i in ids]


def starts_of(trainer, ids):
    return [span.start for span in trainer.credit.segmenter.spans(texts(trainer, ids))]


def test_losses_are_ours(tmp_path, config, problems):
    """Loss and gradient of TRL's types, clipped and with a KL, after TRL's shuffle and split."""
    options = {"beta": 0.1, "num_iterations": 2, "epsilon_high": 0.3}
    trainer, rows = built(
        tmp_path, problems, [lambda completion_ids, **_: [len(x) % 2 for x in completion_ids]],
        num_updates=2, engine=ENGINE, options=options,
    )  # fmt: skip
    generate, whole = trainer._generate_and_score_completions, {}
    trainer._generate_and_score_completions = lambda x: whole.setdefault("batch", generate(x))
    part = trainer._prepare_inputs(rows)
    known = dict(responses_of(whole["batch"]))
    assert all(known[ids] == advantages_T for ids, advantages_T in responses_of(part))
    noise = torch.Generator().manual_seed(1)
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        part[name] = part[name] + 0.3 * torch.randn(part[name].shape, generator=noise)
    part["num_items_in_batch"] = 2 * part["completion_mask"].sum()  # of two equal updates
    trainer.current_gradient_accumulation_steps = 1
    loaded = load_model(MODEL, "float32", "sdpa")
    kinds = {
        "grpo": "sequence_mean", "dapo": "token_mean", "bnpo": "token_mean",
        "dr_grpo": "fixed_length", "luspo": "sequence_sum",
    }  # fmt: skip
    for theirs, ours in kinds.items():
        trainer.loss_type = theirs
        trainer.model.zero_grad()
        their_loss = trainer._compute_loss(trainer.model, part)
        their_loss.backward()
        our_loss = our_objective(config, loaded, part, ours)
        loaded.model.zero_grad()
        our_loss.backward()
        assert their_loss.item() == pytest.approx(our_loss.item(), rel=1e-5), theirs
        pairs = zip(trainer.model.parameters(), loaded.model.parameters(), strict=True)
        for their_weight, our_weight in pairs:
            torch.testing.assert_close(their_weight.grad, our_weight.grad, rtol=1e-3, atol=1e-6)


def our_objective(config, loaded, part, kind):
    from vineppo.types import TokenSequence

    config = changed(
        config, sampling={"max_tokens": 48},
        optimization={"loss_aggregation": kind, "clip_low": 0.2, "clip_high": 0.3},
        reference={"kl_aggregation": kind, "kl_estimator": "k3", "kl_clamp": None},
    )  # fmt: skip
    sequences = []
    for row, (ids, advantages_T) in enumerate(responses_of(part)):
        prompt_ids = part["prompt_ids"][row][part["prompt_mask"][row].bool()].tolist()
        tokens_T = {
            "loss_advantages": advantages_T, "is_trained": [True] * len(ids),
            "importance": [1.0] * len(ids), "is_positive": [False] * len(ids),
            "is_without_bonus": [False] * len(ids),
            "old_logprobs": part["old_per_token_logps"][row, : len(ids)].tolist(),
            "ref_logprobs": part["ref_per_token_logps"][row, : len(ids)].tolist(),
        }  # fmt: skip
        sequences.append(TokenSequence(tuple(prompt_ids), ids, tokens_T=tokens_T))
    batch = collate(sequences, CPU, tuple(tokens_T))
    scores = TokenLogprobs(loaded.model, len(loaded.tokenizer))(batch, ForwardOptions(1.0))
    sizes = UpdateSizes.of(sequences, 48)
    return policy_objective(config, 0.1, [], sizes, batch, TokenScores(**scores))[0]
