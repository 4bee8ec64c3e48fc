"""An environment of the library verifiers, played by turns of token ids."""

import pytest
from support.drills import ids
from support.random_walk import TOKENIZER
from support.task_configs import COMMON

from vineppo.config.schema import ChatPrompt
from vineppo.engine import EngineModel
from vineppo.errors import UserError
from vineppo.recipes.verifiers import VerifiersEnvironment, VerifiersTask, load_environment
from vineppo.tasks import load_task
from vineppo.tasks.environments import Episode, build_environment
from vineppo.tasks.prompts import encode_prompt

MODULE = '''
import verifiers as vf
from datasets import Dataset


class Again(vf.MultiTurnEnv):
    """Asks for the sum of the turn's number and the answer before."""

    async def env_response(self, messages, state, **kwargs):
        said = f"{len(state['trajectory'])}+{messages[-1]['content']}"
        return [{"role": "user", "content": said}]


async def right(completion, answer):
    return float(completion[-1]["content"] == answer)


def load_environment(size):
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}+1?"}], "answer": str(n + 2)}
        for n in range(size)
    ]
    return Again(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]), max_turns=2)

'''
TEMPLATE = (
    "{% for m in messages %}{{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
)
CONFIG = VerifiersTask(
    **{
        **COMMON,
        "prompt": ChatPrompt("chat", "{question}", None),
        "environment": VerifiersEnvironment.Config(kind="verifiers", max_turn_tokens=8),
    },
    kind="verifiers", id="asks-again", options={"size": 3}, train_path=None, test_path=None,
    num_test_problems=2,
)  # fmt: skip


@pytest.fixture
def tokenizer(monkeypatch, tmp_path):
    pytest.importorskip("verifiers", reason="the extra `verifiers` is not installed")
    (tmp_path / "asks_again.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(TOKENIZER, "chat_template", TEMPLATE)
    load_environment.cache_clear()
    return TOKENIZER


def test_an_episode(tokenizer):
    data = load_task(CONFIG)
    assert [problem.id for problem in data.test_P] == ["asks-again/test/0", "asks-again/test/1"]
    problem = data.train_P[2]
    assert (problem.question, problem.answer) == ("2+1?", "4")
    environment = build_environment(
        CONFIG, tokenizer, EngineModel("", len(tokenizer), (tokenizer.eos_token_id,))
    )
    for answer, reward in (("4", 1.0), ("5", 0.0)):
        episode = Episode(environment, problem, 64)
        episode.act(ids("3<eos>"), "stop")
        assert tuple(episode.response_ids) == ids("3<eos>\n1+3\n")
        episode = Episode(environment, problem, 64, episode.response_ids)  # acted out again
        episode.act(ids(f"{answer}<eos>"), "stop")
        assert (episode.finish_reason, episode.reward) == ("stop", reward)
    # What the template makes of the whole conversation are the tokens of the turns.
    said = [("user", "2+1?"), ("assistant", "3"), ("user", "1+3")]
    whole = [{"role": role, "content": content} for role, content in said]
    prompt_ids = encode_prompt(CONFIG.prompt, tokenizer, problem.question)
    templated = tokenizer.apply_chat_template(whole, return_dict=False)
    assert [*prompt_ids, *ids("3<eos>\n1+3\n")] == templated


def test_what_cannot_be_played(tokenizer):
    with pytest.raises(UserError, match="Could not import 'nowhere'"):
        load_environment("nowhere", "{}")
    with pytest.raises(UserError, match="Failed to load environment 'asks-again'"):
        load_environment("asks-again", "{}")
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="needs a chat template"):
        build_environment(CONFIG, tokenizer, EngineModel("", len(tokenizer), (2,)))
