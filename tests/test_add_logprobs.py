"""Passes of real models over an iteration: whose log-probabilities, which KL, which gradient."""

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from support.rollouts import CPU, VINE, changed, two_rollouts, with_column

from vineppo.batching import UpdateSizes, collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.experience import add_advantages, add_logprobs, check_logprob_gap
from vineppo.losses import absolute, full, k1, k2, k3
from vineppo.metrics import kl_metrics, logprob_gap_metrics
from vineppo.models import load_model
from vineppo.policy import Policy, Reference
from vineppo.recipes.sft import likelihood_loss
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import TokenSequence
from vineppo.update import POLICY_COLUMNS, policy_objective

TEMPERATURE = 0.7
NUM_IDS = 21  # of the embedded tokenizer
ESTIMATORS = {"k1": k1, "abs": absolute, "k2": k2, "k3": k3}


@pytest.fixture(scope="module")
def config(configs, tmp_path_factory):
    """The reference is a perturbed copy of the policy."""
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    path = tmp_path_factory.mktemp("reference")
    loaded = load_model(config.model.path, "float32", "sdpa")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.add_(0.1 * weight.std() * noise if weight.dim() > 1 else 0.0)
    loaded.model.save_pretrained(path)
    loaded.tokenizer.save_pretrained(path)
    return changed(
        config,
        credit=VINE,
        sampling={"temperature": TEMPERATURE},
        reference={"path": str(path), "kl_clamp": None},
        optimization={"old_logprobs": "trainer", "max_mean_ratio": None, "num_epochs": 1},
    )


@pytest.fixture(scope="module")
def models(config):
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    return Policy(loaded, config.optimization, gradient_checkpointing=False), reference


def run(config, models, kl_coef=0.0, **tables):
    """The rollouts of an iteration with all that an update reads."""
    policy, reference = models
    config, rollouts = changed(config, **tables), two_rollouts()
    add_logprobs(rollouts, policy, reference, [], config)
    add_advantages(rollouts, [], config, kl_coef)
    return rollouts


def column(name, rollouts):
    return [one.tokens_T[name] for one in rollouts]


def without_advantages(rollouts):
    return [with_column(one, "loss_advantages", 0.0) for one in rollouts]


def table(model, rollout):
    """log π over the vocabulary for every response token, by HF's own forward pass."""
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])
    logits_TV = model(ids).logits[0, len(rollout.prompt_ids) - 1 : -1] / TEMPERATURE
    return torch.log_softmax(logits_TV, -1)


def fresh(config, path=None):
    """[N, V] of the model at `path`, and [N] of the tokens; over both rollouts."""
    model = load_model(path or config.model.path, "float32", "sdpa").model
    return from_model(model)


def from_model(model):
    rollouts = two_rollouts()
    table_NV = torch.cat([table(model, rollout) for rollout in rollouts])
    tokens_N = torch.tensor([token for rollout in rollouts for token in rollout.response_ids])
    return table_NV, table_NV.gather(1, tokens_N[:, None]).squeeze(1)


def flat(rows):
    return [x for row in rows for x in row]


@torch.no_grad()
def test_old_logprobs_are_whose_the_config_says(config, models):
    engine = run(config, models, optimization={"old_logprobs": "engine"})
    assert column("old_logprobs", engine) == [one.logprobs_T for one in two_rollouts()]
    rollouts = run(config, models)
    _, expected_N = fresh(config)
    assert flat(column("old_logprobs", rollouts)) == pytest.approx(expected_N.tolist(), abs=1e-5)
    engine_N = torch.tensor(flat(one.logprobs_T for one in rollouts))
    gap = logprob_gap_metrics(rollouts)["rollout/engine_logprob_gap_max"]
    assert gap == pytest.approx((engine_N - expected_N).abs().max().item(), abs=1e-5)


def as_sampled(config, path=None):
    """The rollouts as an engine with the weights at `path` would have sampled them."""
    stale_N = iter(fresh(config, path)[1].tolist())
    return [
        replace(one, logprobs_T=tuple(next(stale_N) for _ in one.logprobs_T))
        for one in two_rollouts()
    ]


@torch.no_grad()
def test_stale_weights_of_the_engine_end_the_run_in_a_line(config, models):
    policy, reference = models
    bound = lambda x, **sampling: changed(  # noqa: E731
        config, optimization={"max_logprob_gap": x}, sampling=sampling
    )
    assert config.optimization.max_logprob_gap == 0.1
    sound, stale = as_sampled(config), as_sampled(config, config.reference.path)
    for rollouts in (sound, stale):
        add_logprobs(rollouts, policy, reference, [], config)
    check_logprob_gap(sound, bound(1e-4))
    largest = logprob_gap_metrics(stale)["rollout/engine_logprob_gap_max"]
    check_logprob_gap(stale, bound(None))
    check_logprob_gap(stale, bound(largest * 1.001))
    with pytest.raises(UserError) as refusal:
        check_logprob_gap(stale, bound(largest * 0.999))
    message = str(refusal.value)
    assert f"differ by {largest:.2g} in a log-probability (problem p, rollout " in message
    assert f"more than optimization.max_logprob_gap {largest * 0.999:g}: " in message


@torch.no_grad()
def test_with_a_nucleus_the_engines_may_be_larger_by_its_mass(config, models):
    """By up to −log top_p: as far below the trainer's is an error, and farther above too."""
    config = changed(config, sampling={"top_p": 0.7}, optimization={"max_logprob_gap": 0.05})
    by_top_k = changed(config, sampling={"top_k": 2})
    rollouts = run(config, models)
    for cut, shift, is_sound in (
        (config, 0.0, True), (config, -math.log(0.7), True), (config, -0.1, False),
        (config, 0.5, False), (by_top_k, 5.0, True), (by_top_k, -0.1, False),
        (by_top_k, math.inf, False),
    ):  # fmt: skip
        shifted = [
            replace(one, logprobs_T=[x + shift for x in one.tokens_T["trainer_logprobs"]])
            for one in rollouts
        ]
        with nullcontext() if is_sound else pytest.raises(UserError, match="differ by"):
            check_logprob_gap(shifted, cut)


def test_a_log_probability_that_is_no_number_ends_the_run(config):
    for engine, trainer in ((math.nan, -1.0), (-1.0, math.nan), (-math.inf, -1.0)):
        rollouts = [with_column(one, "trainer_logprobs", trainer) for one in two_rollouts()]
        rollouts = [replace(one, logprobs_T=(engine,) * 3) for one in rollouts]
        with pytest.raises(UserError, match=r"rollout 0, token 0\), more than optimization"):
            check_logprob_gap(rollouts, config)


@torch.no_grad()
def test_the_reference_is_scored_at_the_policys_temperature(config, models):
    _, expected_N = fresh(config, config.reference.path)
    found = flat(column("ref_logprobs", run(config, models)))
    assert found == pytest.approx(expected_N.tolist(), abs=1e-5)


@torch.no_grad()
def test_the_untrained_policy_is_its_own_reference(config, models):
    policy, _ = models
    loaded = load_model(config.model.path, "float32", "sdpa")
    own = Reference(replace(config.reference, path=None), config.model, loaded)
    for estimator in (*ESTIMATORS, "full"):
        found = run(config, (policy, own), reference={"kl_estimator": estimator})
        assert flat(column("kl", found)) == pytest.approx([0.0] * 6, abs=1e-6)


@torch.no_grad()
def test_without_a_reference_there_is_no_kl(config, models):
    rollouts = run(config, (models[0], None), reference={"path": None, "kl_estimator": None})
    assert {"kl", "ref_logprobs"}.isdisjoint(rollouts[0].tokens_T)
    assert [sum(one.rewards_T) for one in rollouts] == [one.reward for one in rollouts]


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "full"])
@torch.no_grad()
def test_the_logged_kl_is_raw_also_after_reward_shaping(config, models, estimator):
    """A fresh computation from the models, though clamped hard where it enters the reward."""
    table_NV, logprobs_N = fresh(config)
    ref_NV, ref_N = fresh(config, config.reference.path)
    kl_N = (
        full(table_NV, ref_NV) if estimator == "full" else ESTIMATORS[estimator](logprobs_N, ref_N)
    )
    assert kl_N.abs().max() > 1e-3
    shaping = {"kl_in": "reward", "kl_clamp": (0.0, 1e-3), "kl_estimator": estimator}
    rollouts = run(config, models, kl_coef=50.0, reference=shaping)
    metrics = kl_metrics(column("kl", rollouts), 50.0)
    assert metrics["kl/ref"] == pytest.approx(kl_N.mean().item(), abs=1e-6)
    assert metrics["kl/ref_per_sequence"] == pytest.approx(kl_N.sum().item() / 2, abs=1e-5)
    assert metrics["kl/coef"] == 50.0
    penalty = 50.0 * kl_N.clamp(0.0, 1e-3)
    total = sum(rollouts[0].rewards_T)
    assert total == pytest.approx(1.0 - penalty[:3].sum().item(), abs=1e-4)
    assert total < 1.0


def objective(config, reference, sequences, kl_coef):
    """The loss of an update's only batch, and its gradient; DeepSpeed would keep the latter."""
    model = load_model(config.model.path, "float32", "sdpa").model
    forward = TokenLogprobs(model, NUM_IDS)
    batch = collate(sequences, CPU, POLICY_COLUMNS)
    options = ForwardOptions(
        TEMPERATURE,
        reference=reference,
        has_entropy=True,
    )
    sizes = UpdateSizes.of(sequences, config.sampling.max_tokens)
    scores = TokenScores(**forward(batch, options))
    loss = policy_objective(config, kl_coef, [], sizes, batch, scores)[0]
    return loss.item(), gradient(loss, model)


def gradient(loss, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize(
    ("estimator", "kl_gradient"),
    [("k1", "k2"), ("abs", "own"), ("k2", "own"), ("k3", "own"), ("k3", "k2"), ("full", "own")],
)
def test_value_and_gradient_of_the_kl_in_the_loss(config, models, estimator, kl_gradient):
    """Without advantages the KL is all there is; against HF's logits, differentiated."""
    _, reference = models
    changes = {"kl_estimator": estimator, "kl_gradient": kl_gradient}
    config = changed(config, reference={**changes, "kl_aggregation": "token_mean"})
    still = without_advantages(run(config, models))
    found, own = objective(config, reference, still, kl_coef=3.0)

    model = load_model(config.model.path, "float32", "sdpa").model
    table_NV, logprobs_N = from_model(model)
    with torch.no_grad():
        ref_NV, ref_N = fresh(config, config.reference.path)
    kl_N = (
        full(table_NV, ref_NV) if estimator == "full" else ESTIMATORS[estimator](logprobs_N, ref_N)
    )
    assert found == pytest.approx(3.0 * kl_N.mean().item(), abs=1e-5)
    source_N = k2(logprobs_N, ref_N) if kl_gradient == "k2" else kl_N
    expected = gradient(3.0 * source_N.mean(), model)
    assert expected.norm() > 1e-3
    assert (own - expected).norm() < 1e-3 * expected.norm()


def test_the_entropy_bonus_has_the_gradient_of_the_tempered_entropy(config, models):
    config = changed(config, optimization={"entropy_coef": 2.0})
    still = without_advantages(run(config, models))
    found, own = objective(config, None, still, kl_coef=0.0)
    model = load_model(config.model.path, "float32", "sdpa").model
    table_NV, _ = from_model(model)
    bonus = 2.0 * (table_NV.exp() * table_NV).sum(-1).mean()
    assert found == pytest.approx(bonus.item(), abs=1e-5)
    expected = gradient(bonus, model)
    assert expected.norm() > 1e-3
    assert (own - expected).norm() < 1e-3 * expected.norm()


def test_likelihood_is_that_of_the_response_alone():
    """Response tokens at log-probabilities −1 and −3 over 2 tokens: a loss of 2."""
    batch = collate([TokenSequence((1, 2), (3, 4))], CPU)
    zeros = torch.zeros(1, 4)
    scores = TokenScores(torch.tensor([[-7.0, -9.0, -1.0, -3.0]]), *[zeros] * 4)
    total, _ = likelihood_loss(2)(batch, scores)
    assert total.item() == pytest.approx(2.0)
