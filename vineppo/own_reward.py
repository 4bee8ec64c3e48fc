"""A user's reward function, in the form of this project or as TRL, verl or OpenRLHF call theirs.

A config names it as "FILE.py" or "FILE.py:FUNCTION". The names of its parameters tell the form:

    vineppo     question, answer, response                           a number
    TRL         prompts, completions, completion_ids, and columns    [a number]
    verl        data_source, solution_str, ground_truth, extra_info  a number or {"score": a number}
    OpenRLHF    queries, prompts, labels                             [a number] or {"rewards": [it]}

The last column is what it returns. Every call is about one response, so the lists have one element.
A function gets the parameters that it names, and all of them where it takes `**kwargs`. Sources:
TRL's `GRPOTrainer(reward_funcs=…)`, verl's `custom_reward_function`, OpenRLHF's `--remote_rm_url`.
"""

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.plugins import load_file
from vineppo.types import Problem

OWN = ("question", "answer", "response")
FULL = "full_response"  # with special tokens
# What other forms give, in order, and those of them that no other form has.
FORMS: Mapping[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "TRL": (
        ("prompts", "completions", "completion_ids"),
        frozenset({"completions", "completion_ids"}),
    ),
    "verl": (
        ("data_source", "solution_str", "ground_truth", "extra_info"),
        frozenset({"solution_str"}),
    ),
    "OpenRLHF": (("queries", "prompts", "labels"), frozenset({"queries"})),
}
# Where a form's function returns a table: the key of the reward.
KEYS = {"verl": "score", "OpenRLHF": "rewards"}
# What a function is called where the config does not say: by this project, verl and OpenRLHF.
USUAL_NAMES = ("reward", "compute_score", "reward_func")
LARGEST_FLOAT32 = 3.4e38


@dataclass(frozen=True)
class OwnReward:
    """The reward function of the file at `path`; `name` None: the usual one that it has.

    It can be pickled, and is loaded at its first call in a process. A reward that is not finite
    in the float32 of the losses, or no number, is a `ValueError`.
    """

    path: str
    name: str | None

    @classmethod
    def of(cls, reward_path: str) -> "OwnReward":
        """`OwnReward.of("a.py:f")` is `OwnReward("a.py", "f")`; of "a.py" the name is None."""
        file, _, name = reward_path.rpartition(":")
        return cls(file, name) if file and name.isidentifier() else cls(reward_path, None)

    def load(self) -> "LoadedReward":
        """Raises `UserError` for a file that cannot be run, without the function, or of no form."""
        return _load(self.path, self.name, Path.cwd())

    def __call__(self, *arguments: Any) -> float:
        found = self.load().call(*arguments)
        # float() would read a text, too.
        reward = math.nan if isinstance(found, str | bytes | bytearray | None) else float(found)
        if not abs(reward) <= LARGEST_FLOAT32:
            raise ValueError(f"reward must be a finite number, got {found!r}")
        return reward


@dataclass(frozen=True)
class LoadedReward:
    """A reward function and its form; `form` None: this project's.

    `where` names it in messages: "mine.py: reward".
    """

    function: Callable[..., Any]
    where: str
    form: str | None

    @property
    def reads_special_tokens(self) -> bool:
        return self.form is None and FULL in inspect.signature(self.function).parameters

    def arguments(
        self, problem: Problem, response: str, response_ids: Sequence[int], full_response: str = ""
    ) -> tuple[Any, ...]:
        """What a call is given. Responses with equal arguments share a call."""
        if self.form is None:
            own = problem.question, problem.answer, response
            return (*own, full_response) if self.reads_special_tokens else own
        return problem, response, tuple(response_ids)

    def call(self, *arguments: Any) -> Any:
        """The reward, of `arguments`; a coroutine is run to its end."""
        if self.form is None:
            full = dict(zip((FULL,), arguments[len(OWN) :], strict=False))
            return self._finished(self.function(*arguments[: len(OWN)], **full))
        value = self._finished(self.function(**self._accepted(_given(self.form, *arguments))))
        if isinstance(value, Mapping) and self.form in KEYS:
            value = value[KEYS[self.form]]
        if self.form == "verl":
            return value
        rewards = list(value)
        if len(rewards) != 1:
            raise ValueError(f"must return one reward for one response, got {len(rewards)}")
        return rewards[0]

    def _accepted(self, given: dict[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters
        missing = _required(parameters) - given.keys()
        if missing:
            raise ValueError(f"asks for {', '.join(sorted(missing))}, got {', '.join(given)}")
        takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
        return given if takes_all else {k: x for k, x in given.items() if k in parameters}

    @staticmethod
    def _finished(value: Any) -> Any:
        return asyncio.run(value) if inspect.iscoroutine(value) else value


def _given(
    form: str, problem: Problem, response: str, response_ids: Sequence[int]
) -> dict[str, Any]:
    """The keyword arguments of a form's function, for one response."""
    row = problem.row or {}
    truth = row.get("ground_truth", problem.answer)
    if form == "OpenRLHF":
        return {
            "queries": [problem.question + response],
            "prompts": [problem.question],
            "labels": [problem.answer],
        }
    if form == "verl":
        truth = (row.get("reward_model") or {}).get("ground_truth", truth)
        source = row.get("data_source", problem.id.partition("/")[0])
        extra = dict(row.get("extra_info") or {})
        return dict(zip(FORMS[form][0], (source, response, truth, extra), strict=True))
    prompt = row.get("prompt", problem.question)
    is_text = isinstance(prompt, str)
    completion = response if is_text else [{"role": "assistant", "content": response}]
    columns = {"answer": problem.answer, "ground_truth": truth, **row}
    columns.pop("prompt", None)
    return {name: [value] for name, value in columns.items()} | {
        "prompts": [prompt],
        "completions": [completion],
        "completion_ids": [list(response_ids)],
    }


@cache
def _load(path: str, name: str | None, _: Path) -> LoadedReward:
    """Once a process and working directory, which a relative path starts from."""
    module = load_file(path)
    if name is None:
        found = [usual for usual in USUAL_NAMES if callable(getattr(module, usual, None))]
        if not found:
            usual = ", ".join(USUAL_NAMES[:-1]) + f" or {USUAL_NAMES[-1]}"
            raise UserError(f"{path}: no function {usual}; FILE.py:NAME names another")
        if len(found) > 1 and found[0] != "reward":
            raise UserError(f"{path}: {' and '.join(found)} are both there; FILE.py:NAME names one")
        name = found[0]
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{path}: no function {name}")
    where = f"{path}: {name}"
    return LoadedReward(function, where, _form_of(function, name, where))


def _form_of(function: Callable[..., Any], name: str, where: str) -> str | None:
    """The form whose parameters it names; a function `reward` may name ours otherwise."""
    signature = inspect.signature(function)
    parameters = signature.parameters
    marked = [form for form, (_, marks) in FORMS.items() if marks & parameters.keys()]
    is_ours = tuple(parameters)[:3] == OWN or name == "reward"
    if not marked and is_ours and _takes_three(signature):
        return None
    if len(marked) != 1:
        forms = "; ".join(f"{form}: {', '.join(given)}" for form, (given, _) in FORMS.items())
        raise UserError(
            f"{where} must have the parameters of one form ({', '.join(OWN)}; {forms}), "
            f"got {signature}"
        )
    (form,) = marked
    # TRL's may ask for any column, which the first call checks.
    unknown = _required(parameters) - set(FORMS[form][0])
    if unknown and form != "TRL":
        raise UserError(
            f"{where} must ask for no more than {form} gives ({', '.join(FORMS[form][0])}), "
            f"got {', '.join(sorted(unknown))}"
        )
    return form


def _takes_three(signature: inspect.Signature) -> bool:
    try:
        signature.bind(*OWN, **{FULL: ""} if FULL in signature.parameters else {})
    except TypeError:
        return False
    return True


def _required(parameters: Mapping[str, Parameter]) -> set[str]:
    variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return {
        name
        for name, parameter in parameters.items()
        if parameter.default is Parameter.empty and parameter.kind not in variable
    }
