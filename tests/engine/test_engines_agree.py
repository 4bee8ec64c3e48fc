"""vLLM and transformers sample from one distribution: greedily, in numbers, and in frequencies."""

from collections import Counter
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from scipy.stats import chisquare
from support.engines import LEAVES, assert_alike, engine_config, num_ids, request, run, start

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.tasks import load_task
from vineppo.tasks.prompts import encode_prompt

NUM_SAMPLES = 4000
LENGTH = 3  # tokens of a whole response
MIN_EXPECTED = 5.0  # of a cell of a χ² test; what is rarer is one cell


@pytest.fixture(scope="module")
def engines(configs, loaded):
    init_distributed()
    return {kind: start(engine_config(configs, kind), loaded) for kind in LEAVES}


@pytest.fixture(scope="module")
def prompts(configs, loaded):
    small = ["task.num_train_problems=32"]
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), small)
    return [
        encode_prompt(config.task.prompt, loaded.tokenizer, problem.question)
        for problem in load_task(config.task).test_P[:32]
    ]


@dataclass(frozen=True)
class Setting:
    temperature: float
    top_p: float


def test_greedy_samples_are_the_same(engines, prompts):
    requests = [request(ids, seed, temperature=0.0) for seed, ids in enumerate(prompts)]
    found = [run(engine, requests) for engine in engines.values()]
    for one, other in zip(*found, strict=True):
        assert_alike(one, other)


@pytest.mark.parametrize("setting", [Setting(1.0, 1.0), Setting(0.6, 0.9), Setting(1.5, 0.7)])
def test_each_gives_the_logprobs_of_the_others_samples(engines, prompts, setting):
    """The next token of every state of a response: its number where the other samples the same."""
    first, second = engines.values()
    for ids in prompts[:4]:
        (whole,) = run(first, [request(ids, 7, **vars(setting))])
        states = [(*ids, *whole.token_ids[:t]) for t in range(len(whole.token_ids))]
        requests = [
            request(state, seed, max_tokens=1, **vars(setting))
            for state in states
            for seed in range(8)
        ]
        tables = [logprobs_by_token(requests, run(engine, requests)) for engine in (first, second)]
        shared = tables[0].keys() & tables[1].keys()
        assert len(shared) >= len(states) * 0.9
        for key in shared:
            assert tables[0][key] == pytest.approx(tables[1][key], abs=1e-4)


def logprobs_by_token(requests, completions):
    return {
        (one.prefix_ids, *completion.token_ids): completion.logprobs_T[0]
        for one, completion in zip(requests, completions, strict=True)
    }


@torch.no_grad()
def logits_of_tree(loaded, prefix_ids):
    """The next token's logits after every response of fewer than LENGTH tokens."""
    found = {}
    for depth in range(LENGTH):
        responses = list(product(range(num_ids(loaded)), repeat=depth))
        rows = torch.tensor([[*prefix_ids, *response] for response in responses])
        found |= dict(zip(responses, loaded.model(rows).logits[:, -1].double(), strict=True))
    return {response: logits_V[: num_ids(loaded)] for response, logits_V in found.items()}


def exact_distribution(tree, stop_ids, setting, length):
    """P(response) of every response of at most `length` tokens."""
    leaves, states = {}, {(): 1.0}
    for depth in range(length):
        grown = {}
        for response, mass in states.items():
            for token, probability in enumerate(token_probs(tree[response], setting)):
                is_end = token in stop_ids or depth == length - 1
                if probability > 0:
                    target = leaves if is_end else grown
                    target[(*response, token)] = mass * probability
        states = grown
    assert sum(leaves.values()) == pytest.approx(1.0, abs=1e-6)
    return leaves


def token_probs(logits_V, setting):
    probs_V = torch.softmax(logits_V / setting.temperature, -1).tolist()
    kept_V, mass = [0.0] * len(probs_V), 0.0
    for token in sorted(range(len(probs_V)), key=lambda v: -probs_V[v]):
        if mass < setting.top_p:
            kept_V[token] = probs_V[token]
            mass += probs_V[token]
    return [p / mass for p in kept_V]


def p_value(samples, distribution):
    """Of a χ² test of the samples' frequencies; 0 where one has no probability at all."""
    counts = Counter(samples)
    if not counts.keys() <= distribution.keys():
        return 0.0
    common = [key for key, p in distribution.items() if p * len(samples) >= MIN_EXPECTED]
    expected = [distribution[key] * len(samples) for key in common]
    observed = [counts[key] for key in common]
    rest = len(samples) - sum(expected)
    if rest >= MIN_EXPECTED:
        expected.append(rest)
        observed.append(len(samples) - sum(observed))
    total = sum(observed) / sum(expected)
    return float(chisquare(observed, [e * total for e in expected]).pvalue)


# A state after which several tokens are likely: a fact that was demonstrated wrongly.
STATE = "4+6+6-5+2+7*3?\n4+6=0\n0+6=6\n6-5="
SETTINGS = [Setting(1.5, 1.0), Setting(1.2, 0.97)]
WRONG_TOP_P = {1.0: (0.9,), 0.97: (1.0, 0.9)}


@pytest.fixture(scope="module")
def state(loaded):
    return tuple(loaded.tokenizer(STATE)["input_ids"])


@pytest.fixture(scope="module")
def tree(loaded, state):
    return logits_of_tree(loaded, state)


@pytest.fixture(scope="module")
def samples(engines, state):
    """By engine and setting, whole short responses of one state."""
    found = {}
    for kind, engine in engines.items():
        for setting in SETTINGS:
            requests = [
                request(state, seed, max_tokens=LENGTH, with_logprobs=False, **vars(setting))
                for seed in range(NUM_SAMPLES)
            ]
            found[kind, setting] = [c.token_ids for c in run(engine, requests)]
    return found


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("length", [1, LENGTH])
@pytest.mark.parametrize("kind", LEAVES)
def test_frequencies_are_those_of_the_policy(loaded, tree, samples, kind, setting, length):
    """And so many samples would tell a temperature 15 % off, or another nucleus."""
    found = [ids[:length] for ids in samples[kind, setting]]
    stop_ids = loaded.engine_model.stop_ids
    assert p_value(found, exact_distribution(tree, stop_ids, setting, length)) > 0.005
    temperature, top_p = setting.temperature, setting.top_p
    wrong = [Setting(temperature * 1.15, top_p), Setting(temperature / 1.15, top_p)]
    wrong += [Setting(temperature, other) for other in WRONG_TOP_P[top_p]]
    for other in wrong:
        assert p_value(found, exact_distribution(tree, stop_ids, other, length)) < 1e-6, other
