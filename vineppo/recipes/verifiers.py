"""Environments of the library verifiers: its `MultiTurnEnv`, of versions 0.1.14 to 0.3.

The environment's data set gives the problems, its `env_response` the turns, and its rubric the
reward at the end. Version 0.4 has no such environments: an agent there is a program that talks to a
server. It can neither be copied nor replayed from its turns.
"""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema import AnyConfig, EnvironmentConfig, Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.recipes.jsonl import prompt_field
from vineppo.segment import response_text
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.environments import Environment, Observation
from vineppo.tasks.prompts import render
from vineppo.types import Problem, Split

SAID = "ANSWER"  # stands for the policy's turn while the template's text behind it is found


@dataclass(frozen=True, kw_only=True)
class VerifiersTask(Task):
    """The rows of the environment's data set, and of its evaluation set."""

    id: Name  # the module that has `load_environment`
    options: dict[str, Any] = field(default_factory=dict)  # handed to it

    def load(self, split: Split) -> list[Problem]:
        environment = load_environment(self.id, json.dumps(self.options))
        rows = environment.get_dataset() if split == "train" else environment.get_eval_dataset()
        problems = []
        for index, row in enumerate(rows):
            where = f"{self.id}/{split}/{index}"
            question, context = prompt_field(row, "prompt", where)
            answer = str(row.get("answer", ""))
            problems.append(Problem(where, question, answer, context=context, row=row))
        return problems

    def check(self, key: str, config: AnyConfig) -> None:
        super().check(key, config)
        require(
            self.environment is not None,
            f"{key}.environment must not be null for {key}.kind 'verifiers'",
        )


@cache
def load_environment(name: str, options: str) -> Any:
    """The result of `load_environment(**options)` of the module `name`; `options` are JSON.

    Raises `UserError` where the library is missing or another, or the environment is of no kind
    that can be played by turns of text.
    """
    key = f"task.id {name}"
    try:
        import verifiers

        multi_turn = verifiers.MultiTurnEnv
    except (ImportError, AttributeError):
        raise UserError(
            f"{key} needs the library verifiers, versions 0.1.14 to 0.3: pip install "
            "'verifiers>=0.1.14,<0.4'"
        ) from None
    try:
        environment = verifiers.load_environment(name, **json.loads(options))
    except (ValueError, RuntimeError) as error:
        raise UserError(f"{key}: {str(error).splitlines()[0]}") from error
    if not isinstance(environment, multi_turn):
        raise UserError(f"{key} must be a MultiTurnEnv, got {type(environment).__name__}")
    if environment.tool_defs:
        raise UserError(f"{key} must have no tools (turns are text, which names no call), got some")
    return environment


class VerifiersEnvironment(Environment):
    """Plays a `MultiTurnEnv` without its client; the policy's turns are given to it as responses.

    Its messages become tokens as the tokenizer's chat template puts them behind the turn.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(EnvironmentConfig):
        def check(self, key: str, config: AnyConfig) -> None:
            super().check(key, config)
            task: Any = getattr(config, "task", None)
            require(
                isinstance(task, VerifiersTask),
                f"task.kind must be 'verifiers' for {key} of kind 'verifiers', got {task.kind!r}",
            )

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        if self.tokenizer.chat_template is None:
            raise UserError("task.environment of kind 'verifiers' needs a chat template, got none")
        self._environment = load_environment(self.task.id, json.dumps(self.task.options))

    def reset(self, problem: Problem) -> Observation:
        from verifiers.clients import OpenAIChatCompletionsClient

        environment, client = self._environment, OpenAIChatCompletionsClient(None)
        self._state = finished(environment.init_state(dict(problem.row or {}), client, "policy"))
        self._state = finished(environment.setup_state(self._state)) or self._state
        self._messages = finished(environment.get_prompt_messages(self._state))
        return Observation(())

    def step(self, action_ids: tuple[int, ...]) -> Observation:
        return finished(self._step(response_text(self.tokenizer, action_ids)))

    async def _step(self, text: str) -> Observation:
        from verifiers.types import Response, ResponseMessage

        environment, state = self._environment, self._state
        message = ResponseMessage(content=text, finish_reason="stop", is_truncated=False)
        response = Response(id="", created=0, model="policy", message=message)
        await environment.add_model_response(state, self._messages, response)
        if not await environment.is_completed(state):
            num_before = len(self._messages) + 1
            self._messages = await environment.get_prompt_messages(state)
            if not await environment.is_completed(state):
                return Observation(self._ids(self._messages[num_before:]))
        await environment.cleanup(state)
        await environment.rubric.score_rollout(state)
        return Observation((), reward=float(state["reward"]), is_done=True)

    def _ids(self, messages: list[Any]) -> tuple[int, ...]:
        """The template's tokens behind an assistant's turn, up to where the next one begins.

        Without the token that ended the turn, which the policy wrote.
        """
        said = [{"role": "user", "content": ""}, {"role": "assistant", "content": SAID}]
        said += [
            {"role": m["role"], "content": as_text(self.tokenizer, m["content"])} for m in messages
        ]
        options = getattr(self.task.prompt, "chat_template_kwargs", {})
        text = render(self.tokenizer, said, "task.environment", **options)
        return encode(self.tokenizer, text.partition(SAID)[2])[1:]


@cache
def loop() -> asyncio.AbstractEventLoop:
    """One for all calls: what an environment opens in a loop lives as long as that."""
    return asyncio.new_event_loop()


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    return loop().run_until_complete(work)
