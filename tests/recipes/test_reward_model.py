"""A reward model's scores as the values of states."""

from dataclasses import replace

import pytest
import torch
from support.critics import build_config, start, write_classifier
from support.rollouts import rollout
from transformers import AutoModelForSequenceClassification


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A reward model with scores of a few units; `name_or_path` is its directory."""
    path = tmp_path_factory.mktemp("reward_model")
    write_classifier(path, mean=0.0, deviation=0.1)
    return AutoModelForSequenceClassification.from_pretrained(path).eval()


@pytest.mark.parametrize("output", ["score", "probability"])
def test_states_are_valued_by_their_scores(classifier, configs, output):
    """V(s) of prompt and prefix, before every token."""
    path, ids = classifier.name_or_path, (5, 15, 6, 8, 11, 12, 9)
    predictors = {"process": {"kind": "reward_model", "path": path, "output": output}}
    config = build_config(configs, "separate", values__predictors=predictors)
    (process,) = (one for one in start(config).predictors if one.name == "process")
    some = [replace(rollout([0.0] * n), response_ids=ids[:n]) for n in (7, 3)]
    process.estimate(some)
    for one in some:
        for t, value in enumerate(one.values_T("process")):
            inputs = torch.tensor([(*one.prompt_ids, *one.response_ids[:t])])
            with torch.no_grad():
                score = classifier(input_ids=inputs).logits[0, 0]
            expected = score if output == "score" else torch.sigmoid(score)
            assert value == pytest.approx(expected.item(), abs=1e-5)
