"""VinePPO inside TRL: advantages and losses against ours, on the same rollouts."""

import os
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from support.engines import MODEL
from support.page import page_files
from support.rollouts import CPU, changed

from vineppo.batching import UpdateSizes, collate
from vineppo.credit import token_advantages
from vineppo.credit.vine import broadcast, vine_advantages
from vineppo.errors import UserError
from vineppo.models import ASSETS
from vineppo.rollouts import Sampler
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import TokenSequence, by_problem
from vineppo.update import policy_objective
from vineppo.values import build_predictors

pytest.importorskip("trl", reason="TRL is not installed (`make setup` brings it)")
POLICY = str(ASSETS / MODEL.partition(":")[2])
CREDIT = {"kind": "vine", "num_continuations": 3, "segmenter": {"kind": "lines"}}
ENGINE = {"kind": "transformers", "dtype": "float32", "max_model_len": 128}
GRADING = {"extraction": "hash", "num_workers": 1}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
KINDS = {  # loss_type, loss_aggregation
    "grpo": "sequence_mean", "dapo": "token_mean", "dr_grpo": "fixed_length",
    "luspo": "sequence_sum",
}  # fmt: skip
NUM = 4  # rollouts of a prompt


@pytest.fixture(scope="module", autouse=True)
def whole_environment():
    """accelerate names a rank in the environment, which later tests would take for a launcher's."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def problems(config):
    return load_task(config.task).train_P[:4]


def built(folder, problems, rewards=(), is_chat=False, num_parts=1, options=None, **more):
    """A trainer, and the rows of an iteration."""
    from datasets import Dataset
    from trl import GRPOConfig

    from vineppo.recipes.trl_vine import VineTrainer

    arguments = GRPOConfig(
        str(folder), use_cpu=True, bf16=False, report_to="none", num_generations=NUM,
        steps_per_generation=num_parts, max_completion_length=48, **(options or {}),
        per_device_train_batch_size=len(problems) * NUM // num_parts,
    )  # fmt: skip
    texts = [f"{problem.question}\n" for problem in problems]
    prompts = [[{"role": "user", "content": text}] for text in texts] if is_chat else texts
    pairs = zip(prompts, problems, strict=True)
    rows = [{"prompt": prompt, "answer": problem.answer} for prompt, problem in pairs]
    data, keys = Dataset.from_list(rows), {"credit": CREDIT, **more}
    trainer = VineTrainer(POLICY, rewards, arguments, train_dataset=data, **keys)
    trainer.processing_class.chat_template = TEMPLATE
    trainer.model.train()  # as `train` does
    return trainer, [row for row in rows for _ in range(NUM)]


def responses_of(batch):
    """The ids and the advantages of every row, without padding."""
    for row, length in enumerate(batch["completion_mask"].sum(1).tolist()):
        advantages_T = batch["advantages"][row].tolist()
        assert not any(advantages_T[length:])
        yield tuple(batch["completion_ids"][row, :length].tolist()), advantages_T[:length]


def test_advantages_are_ours(tmp_path, config, loaded, problems):
    """With our engine and grader TRL's rollouts get the numbers that our trainer gives them."""
    config = changed(config, credit={"num_continuations": 3}, seed=5)
    trainer, rows = built(
        tmp_path, problems, grading=GRADING, engine=ENGINE, options={"seed": config.seed}
    )
    batch = trainer._generate_and_score_completions(rows)
    rollouts = [
        replace(rollout, problem=replace(problems[row // NUM], id=rollout.problem.id))
        for row, rollout in enumerate(trainer._rollouts(batch))
    ]
    with Grader(config.task.grading) as grader:
        sampler = Sampler(trainer.engine, grader, loaded.tokenizer, config.sampling, config.seed)
        (predictor,) = build_predictors(config, loaded)
        stream = predictor.open_stream(sampler, 0)
        for one in rollouts:
            stream.submit(one)
            text = sampler.text(one.response_ids)
            reason = "stop" if one.response_ids[-1] in loaded.engine_model.stop_ids else "length"
            assert grader.submit(one.problem, text, reason).result() == one.reward
        sampler.finish()
        predictor.merge(rollouts, [stream.settle()])
    assert len({one.reward for one in rollouts}) == 2
    ours = [x for group in by_problem(rollouts) for x in token_advantages(config.credit, group)]
    for (_, theirs_T), ours_T in zip(responses_of(batch), ours, strict=True):
        assert theirs_T == pytest.approx(ours_T, abs=1e-6)


@pytest.mark.parametrize("is_chat", [False, True])
def test_values_are_means_of_trls_rewards(is_chat, tmp_path, problems):
    """Continuations of `generate`, and two reward functions with weights."""
    called = []

    def length(completion_ids, completions, **_):
        called.append([tuple(ids) for ids in completion_ids])
        assert all(isinstance(text, list) == is_chat for text in completions)
        return [len(ids) / 10 for ids in completion_ids]

    def odd(completion_ids, log_metric, **_):
        log_metric("odd", 1.0)
        return [sum(ids) % 2 if len(ids) % 3 else None for ids in completion_ids]

    def reward(ids):
        return len(ids) / 10 + 2 * (sum(ids) % 2 if len(ids) % 3 else 0)

    options = {"reward_weights": [1.0, 2.0]}
    trainer, rows = built(tmp_path, problems, [length, odd], is_chat, options=options)
    batch = trainer._generate_and_score_completions(rows)
    sampled = (ids for ids_B in called[1:] for ids in ids_B)
    rollouts, values = trainer._rollouts(batch), {}
    for rollout, (ids, advantages_T) in zip(rollouts, responses_of(batch), strict=True):
        values_S = []
        for span in rollout.spans_S:
            key = rollout.problem.id, ids[: span.start]
            if key not in values:
                of_state = [next(sampled) for _ in range(3)]
                assert all(x[: span.start] == key[1] and len(x) <= 48 for x in of_state)
                values[key] = fmean(map(reward, of_state))
            values_S.append(values[key])
        expected_T = broadcast(vine_advantages(values_S, reward(ids)), rollout.spans_S)
        assert advantages_T == pytest.approx(expected_T, abs=1e-5)
    assert next(sampled, None) is None
    assert trainer._metrics["train"]["odd"] == [1.0]  # of rollouts alone


def test_losses_are_ours(tmp_path, config, loaded, problems):
    """Loss and gradient, clipped and with a KL, after TRL's shuffle and split."""
    options = {"beta": 0.1, "num_iterations": 2, "epsilon_high": 0.3}
    trainer, rows = built(
        tmp_path, problems, lambda completion_ids, **_: [sum(x) % 2 for x in completion_ids],
        num_parts=2, engine=ENGINE, options=options,
    )  # fmt: skip
    generate, whole = trainer._generate_and_score_completions, {}
    trainer._generate_and_score_completions = lambda x: whole.setdefault("batch", generate(x))
    part, noise = trainer._prepare_inputs(rows), torch.Generator().manual_seed(1)
    known = list(responses_of(whole["batch"]))
    assert all(response in known for response in responses_of(part))
    for name in ("old_per_token_logps", "ref_per_token_logps"):
        part[name] = part[name] + 0.3 * torch.randn(part[name].shape, generator=noise)
    part["num_items_in_batch"] = 2 * part["completion_mask"].sum()  # of two equal updates
    trainer.current_gradient_accumulation_steps = 1
    sequences = []
    for row, (ids, advantages_T) in enumerate(responses_of(part)):
        prompt_ids = part["prompt_ids"][row][part["prompt_mask"][row].bool()].tolist()
        columns_T = {
            f"{name}_logprobs": part[f"{name}_per_token_logps"][row, : len(ids)].tolist()
            for name in ("old", "ref")
        }
        columns_T |= {"loss_advantages": advantages_T, "importance": [1.0] * len(ids)}
        columns_T |= {"is_trained": [True] * len(ids), "is_without_bonus": [False] * len(ids)}
        sequences.append(TokenSequence(tuple(prompt_ids), ids, tokens_T=columns_T))
    batch, sizes = collate(sequences, CPU, tuple(columns_T)), UpdateSizes.of(sequences, 48)
    scores = TokenLogprobs(loaded.model, len(loaded.tokenizer))
    for theirs, ours in KINDS.items():
        trainer.loss_type = theirs
        trainer.model.zero_grad()
        their_loss = trainer._compute_loss(trainer.model, part)
        their_loss.backward()
        like = changed(
            config, reference={"kl_aggregation": ours, "kl_importance": True, "kl_clamp": None},
            optimization={"loss_aggregation": ours, "clip_low": 0.2, "clip_high": 0.3},
        )  # fmt: skip
        found = TokenScores(**scores(batch, ForwardOptions(1.0)))
        loaded.model.zero_grad()
        our_loss, numbers = policy_objective(like, 0.1, [], sizes, batch, found)
        our_loss.backward()
        assert numbers["clip_frac"] > 0
        assert their_loss.item() == pytest.approx(our_loss.item(), rel=1e-5), theirs
        grads = ([w.grad for w in x.model.parameters()] for x in (trainer, loaded))
        torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-6)


def test_refusals(tmp_path, problems):
    with pytest.raises(UserError, match="got RlooCredit"):
        built(tmp_path, problems, len, credit={"kind": "rloo", "segmenter": {"kind": "lines"}})
    with pytest.raises(UserError, match="engine must be None with top_k"):
        built(tmp_path, problems, len, engine=ENGINE, options={"top_k": 5})


@pytest.mark.slow
def test_the_page_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "max_completion_length=16, use_cpu=True, bf16=False, max_steps=3, logging_steps=1"
    code = page_files()["in_trl.py"].replace("use_vllm=True", small)
    code = code.replace("Qwen/Qwen2.5-0.5B-Instruct", POLICY)
    template = f"trainer.processing_class.chat_template = {TEMPLATE!r}\n"
    exec(code.replace("trainer.train()", f"{template}trainer.train()"), found := {})
    log = found["trainer"].state.log_history
    assert [row["step"] for row in log if "vine/value_mean" in row] == [1, 2, 3]
