"""Reward functions as TRL, verl and OpenRLHF call theirs; the parameters tell the library.

    TRL         prompts, completions, completion_ids, and columns    returns [a number]
    verl        data_source, solution_str, ground_truth, extra_info  a number or {"score": a number}
    OpenRLHF    queries, prompts, labels                             [a number] or {"rewards": [it]}

Every call is about one response, so the lists have one element. A function gets the parameters that
it names, and all of them if it takes `**kwargs`. Sources: TRL's `GRPOTrainer(reward_funcs=…)`,
verl's `custom_reward_function`, OpenRLHF's `--remote_rm_url`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, ClassVar

from vineppo.errors import UserError
from vineppo.types import Problem
from vineppo.user_reward import FULL, OURS, RewardForm, finished


class AnyForm(RewardForm):
    """The form of another library, which gives parameters by name."""

    given: ClassVar[tuple[str, ...]]
    marks: ClassVar[frozenset[str]]  # parameters that no other form has
    takes_columns: ClassVar[bool] = False  # which the first call checks
    key: ClassVar[str | None] = None  # of the reward, if the function returns a table

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        super().__init__(function, where)
        self.reads_special_tokens = False
        unknown = self._required() - set(self.given)
        if unknown and not self.takes_columns:
            raise UserError(
                f"{where} must ask for no more than {type(self).__name__} gives "
                f"({', '.join(self.given)}), got {', '.join(sorted(unknown))}"
            )

    @staticmethod
    def of(function: Callable[..., Any], where: str) -> RewardForm:
        """The function in its form; a function `reward` may call our parameters otherwise."""
        signature = inspect.signature(function)
        names = tuple(signature.parameters)
        marked = [form for form in FORMS if form.marks & set(names)]
        is_ours = names[: len(OURS)] == OURS or where.endswith(": reward")
        if not marked and is_ours and _takes_ours(signature):
            return RewardForm(function, where)
        if len(marked) != 1:
            lists = "; ".join(f"{form.__name__}: {', '.join(form.given)}" for form in FORMS)
            raise UserError(
                f"{where} must have the parameters of one form ({', '.join(OURS)}; {lists}), "
                f"got {signature}"
            )
        return marked[0](function, where)

    def arguments(
        self, problem: Problem, response: str, response_ids: Sequence[int], full_response: str
    ) -> tuple[Any, ...]:
        del full_response
        return problem, response, tuple(response_ids)

    def named(self, problem: Problem, response: str, response_ids: Sequence[int]) -> dict[str, Any]:
        """The arguments of one response, by name."""
        raise NotImplementedError

    def call(self, *arguments: Any) -> Any:
        given = self.named(*arguments)
        if missing := self._required() - given.keys():
            raise ValueError(f"asks for {', '.join(sorted(missing))}, got {', '.join(given)}")
        takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in self.parameters.values())
        accepted = {k: x for k, x in given.items() if takes_all or k in self.parameters}
        value = finished(self.function(**accepted))
        if isinstance(value, Mapping) and self.key is not None:
            value = value[self.key]
        return self.only(value)

    def only(self, value: Any) -> Any:
        """The one reward in what the function returned."""
        rewards = list(value)
        if len(rewards) != 1:
            raise ValueError(f"must return one reward for one response, got {len(rewards)}")
        return rewards[0]

    def _required(self) -> set[str]:
        variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        return {
            name
            for name, parameter in self.parameters.items()
            if parameter.default is Parameter.empty and parameter.kind not in variable
        }


class TRL(AnyForm):
    """Completions are messages if the prompts of the data are."""

    given = ("prompts", "completions", "completion_ids")
    marks = frozenset({"completions", "completion_ids"})
    takes_columns = True

    def named(self, problem: Problem, response: str, response_ids: Sequence[int]) -> dict[str, Any]:
        row = problem.row or {}
        prompt = row.get("prompt", problem.question)
        is_text = isinstance(prompt, str)
        completion = response if is_text else [{"role": "assistant", "content": response}]
        truth = row.get("ground_truth", problem.answer)
        columns = {"answer": problem.answer, "ground_truth": truth, **row}
        columns.pop("prompt", None)
        return {name: [value] for name, value in columns.items()} | {
            "prompts": [prompt],
            "completions": [completion],
            "completion_ids": [list(response_ids)],
        }


class verl(AnyForm):  # noqa: N801
    """A row with a `reward_model` has its `ground_truth` there."""

    given = ("data_source", "solution_str", "ground_truth", "extra_info")
    marks = frozenset({"solution_str"})
    key = "score"

    def named(self, problem: Problem, response: str, response_ids: Sequence[int]) -> dict[str, Any]:
        del response_ids
        row = problem.row or {}
        truth = row.get("ground_truth", problem.answer)
        return {
            "data_source": row.get("data_source", problem.id.partition("/")[0]),
            "solution_str": response,
            "ground_truth": (row.get("reward_model") or {}).get("ground_truth", truth),
            "extra_info": dict(row.get("extra_info") or {}),
        }

    def only(self, value: Any) -> Any:
        return value


class OpenRLHF(AnyForm):
    """`queries` are the prompts with their responses."""

    given = ("queries", "prompts", "labels")
    marks = frozenset({"queries"})
    key = "rewards"

    def named(self, problem: Problem, response: str, response_ids: Sequence[int]) -> dict[str, Any]:
        del response_ids
        texts = problem.question + response, problem.question, problem.answer
        return {name: [text] for name, text in zip(self.given, texts, strict=True)}


FORMS: tuple[type[AnyForm], ...] = (TRL, verl, OpenRLHF)


def _takes_ours(signature: inspect.Signature) -> bool:
    try:
        signature.bind(*OURS, **{FULL: ""} if FULL in signature.parameters else {})
    except TypeError:
        return False
    return True
