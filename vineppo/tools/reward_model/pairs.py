"""Preference pairs as token ids: from rows of texts or conversations, and from runs' rollouts."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from statistics import fmean
from typing import Any

from vineppo.config.schema import TemplatePrompt
from vineppo.encoding import within
from vineppo.errors import UserError, naming
from vineppo.models import end_of_turn, load_tokenizer
from vineppo.run_dir import RunDir
from vineppo.run_dir.config import read_config
from vineppo.seeds import derive_seed
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.prompts import encode_prompt
from vineppo.tasks.rows import Row, read_hub, read_rows, text_field, text_or_number_field
from vineppo.tools.reward_model.config import (
    HubPairs,
    JsonlPairs,
    RewardModelConfig,
    RunPairs,
    StatePairs,
    TextPairs,
)

RIGHT = 0.5  # a reward above it is of a right response
ROLES = ("system", "user", "assistant")
Message = dict[str, str]
Response = tuple[tuple[int, ...], tuple[int, ...]]  # the prompt's token ids, then the response's


@dataclass(frozen=True)
class Pair:
    """Two responses: the first is preferred, and its score should be `margin` higher.

    `name` says where it is from: "pairs.jsonl: row 3".
    """

    name: str
    chosen: Response
    rejected: Response
    margin: float = 0.0

    def __len__(self) -> int:
        """The longer side's tokens."""
        return max(len(prompt) + len(response) for prompt, response in (self.chosen, self.rejected))


def load_pairs(config: RewardModelConfig, tokenizer: Any) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on and the pairs to evaluate on; they share no prompt.

    A pair over `optimization.max_tokens` is never cut, but refused or left out. Raises `UserError`
    for a row that does not fit, for a run whose policy has another tokenizer, and where nothing is
    left to train on.
    """
    own, num_test = config.pairs, config.pairs.num_test_pairs
    test: list[Pair] | None = None
    if isinstance(own, RunPairs):
        train = _run_pairs(own, config, tokenizer)
    else:
        if isinstance(own, JsonlPairs):
            train_source, test_source = own.train_path, own.test_path
        else:
            train_source, test_source = own.train_split, own.test_split
        train = [_text_pair(own, tokenizer, *row) for row in _read(own, train_source)]
        if test_source is not None:
            rows = islice(_read(own, test_source), num_test)
            test = [_text_pair(own, tokenizer, *row) for row in rows]
    limit, too_long = config.optimization.max_tokens, own.too_long

    def fitting(pairs: Sequence[Pair]) -> list[Pair]:
        items = ((pair.name, len(pair), "", pair) for pair in pairs)
        return within(limit, "optimization.max_tokens", items, too_long, "pair")

    train = fitting(train)
    return (train, fitting(test)) if test is not None else hold_out(train, num_test, config.seed)


def hold_out(pairs: Sequence[Pair], num_test: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(train, test): random prompts give all of their pairs to the test set, up to `num_test`."""
    by_prompt: dict[tuple[int, ...], list[Pair]] = {}
    for pair in pairs:
        by_prompt.setdefault(pair.chosen[0], []).append(pair)
    prompts = list(by_prompt)
    random.Random(derive_seed(seed, "held-out pairs")).shuffle(prompts)
    test: list[Pair] = []
    while prompts and len(test) < num_test:
        test += by_prompt[prompts.pop()]
    left = set(prompts)
    train = [pair for pair in pairs if pair.chosen[0] in left]
    if not train:
        raise UserError(
            f"pairs.num_test_pairs must leave pairs to train on, of {len(pairs)} pairs of "
            f"{len(by_prompt)} prompts, got {num_test}"
        )
    return train, test


def _read(pairs: JsonlPairs | HubPairs, source: str) -> Iterator[tuple[str, Row]]:
    """The rows of a file, or of a split."""
    if isinstance(pairs, JsonlPairs):
        return read_rows(source)
    instead = "a local file (pairs.kind 'jsonl')"
    return read_hub(pairs.hub_path, pairs.hub_name, source, "pairs.hub_path", instead)


def _text_pair(pairs: TextPairs, tokenizer: Any, where: str, row: Row) -> Pair:
    sides = [
        _encode(pairs, tokenizer, conversation(row, side, where), where)
        for side in ("chosen", "rejected")
    ]
    margin = 0.0
    if pairs.margin_field is not None:
        text = text_or_number_field(row, pairs.margin_field, where)
        try:
            margin = float(text)
        except ValueError:
            margin = -1.0
        if not 0.0 <= margin < float("inf"):
            raise UserError(f"{where}: {pairs.margin_field} must be a number from 0 on, got {text}")
    return Pair(where, sides[0], sides[1], margin)


def conversation(row: Row, side: str, where: str) -> list[Message]:
    """The messages of a side; the last is the assistant's, the one before it the user's.

    A list of {"role", "content"} as Skywork-Reward-Preference and the Tulu 3 mixtures have it, or a
    text, whose user message is the row's `prompt`. `{"prompt": "1+1?", "chosen": "2", …}` gives
    [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}].
    """
    value = row.get(side)
    if isinstance(value, str):
        prompt = text_field(row, "prompt", where)
        return [{"role": "user", "content": prompt}, {"role": "assistant", "content": value}]
    if not isinstance(value, list):
        raise UserError(
            f"{where}: {side} must be a text or a list of messages, got "
            + (type(value).__name__ if side in row else f"the fields {sorted(row)}")
        )
    for message in value:
        is_message = isinstance(message, dict) and isinstance(message.get("content"), str)
        if not is_message or message.get("role") not in ROLES:
            raise UserError(
                f"{where}: {side} must hold messages with a text content and a role among "
                f"{', '.join(ROLES)}, got {str(message)[:60]}"
            )
    if [message["role"] for message in value[-2:]] != ["user", "assistant"]:
        raise UserError(f"{where}: {side} must end with a message of the user and its answer")
    return [{"role": message["role"], "content": message["content"]} for message in value]


def _encode(pairs: TextPairs, tokenizer: Any, messages: Sequence[Message], where: str) -> Response:
    """The answer ends as a policy's would, with the token that closes a turn or a text."""
    *before, question, answer = messages
    if before and isinstance(pairs.prompt, TemplatePrompt):
        raise UserError(
            f"{where}: pairs.prompt.kind must be 'chat' for a conversation of {len(messages)} "
            "messages, got 'template'"
        )
    text = question["content"]
    context = [(message["role"], message["content"]) for message in before]
    with naming(where):
        prompt_ids = encode_prompt(pairs.prompt, tokenizer, text, context, "pairs.prompt")
        response_ids = encode(tokenizer, as_text(tokenizer, answer["content"]))
    end_id = end_of_turn(tokenizer)
    end_id = tokenizer.eos_token_id if end_id is None else end_id
    return prompt_ids, (*response_ids, end_id)


def _run_pairs(pairs: RunPairs, config: RewardModelConfig, tokenizer: Any) -> list[Pair]:
    """Pairs within each problem of the runs, over all iterations; equal responses are one."""
    worth: dict[str, dict[Response, list[float]]] = {}
    for path in pairs.run_dirs:
        policy = read_config(Path(path)).model.path
        vocabulary = load_tokenizer(policy, "model.path").get_vocab() if policy else None
        if vocabulary != tokenizer.get_vocab():
            raise UserError(f"pairs.run_dirs {path}: its policy must have model.path's tokenizer")
        run = RunDir(path)
        for iteration in run.iterations("rollouts"):
            found = _states if isinstance(pairs, StatePairs) else _rollouts
            for problem_id, response, value in found(run, iteration):
                worth.setdefault(problem_id, {}).setdefault(response, []).append(value)
    gap = pairs.min_gap if isinstance(pairs, StatePairs) else 1.0
    drawn: list[Pair] = []
    for problem_id, values in worth.items():
        means = {response: fmean(found) for response, found in values.items()}
        seed = derive_seed(config.seed, "pairs", problem_id)
        drawn += [
            Pair(problem_id, chosen, rejected)
            for chosen, rejected in draw_pairs(means, gap, pairs.pairs_per_problem, seed)
        ]
    if not drawn:
        kind = "right and wrong rollouts" if gap == 1.0 else f"states that differ by {gap:g}"
        raise UserError(f"pairs.run_dirs {', '.join(pairs.run_dirs)}: no problem has {kind}")
    return drawn


def draw_pairs(
    values: Mapping[Response, float], gap: float, number: int, seed: int
) -> list[tuple[Response, Response]]:
    """At most `number` different pairs (better, worse) with values that differ by `gap` or more.

    All such pairs are equally likely. The values {a: 0, b: 0.5, c: 1} and gap 0.5 have the pairs
    (b, a), (c, a) and (c, b).
    """
    ascending = sorted(values, key=lambda response: (values[response], response))
    worths = [values[response] for response in ascending]
    # Number i is better than the first counts[i] of them; ends[i] counts the pairs up to it.
    counts = [bisect_right(worths, worth - gap + 1e-9) for worth in worths]
    ends = list(accumulate(counts))
    total = ends[-1] if ends else 0
    places = random.Random(seed).sample(range(total), min(total, number))
    better = [bisect_right(ends, place) for place in places]
    return [
        (ascending[i], ascending[place - ends[i] + counts[i]])
        for i, place in zip(better, places, strict=True)
    ]


def _rollouts(run: RunDir, iteration: int) -> Iterator[tuple[str, Response, float]]:
    """(problem, response, 1 where it is right, else 0)."""
    for row in run.read_rollouts(iteration, ("problem_id", "prompt_ids", "response_ids", "reward")):
        response = tuple(row["prompt_ids"]), tuple(row["response_ids"])
        yield row["problem_id"], response, float(row["reward"] > RIGHT)


def _states(run: RunDir, iteration: int) -> Iterator[tuple[str, Response, float]]:
    """(problem, response up to a step boundary, mean return); the prompt alone is none of them."""
    rollouts = {
        (row["problem_id"], row["rollout_index"]): row for row in run.read_rollouts(iteration)
    }
    for (problem_id, _), row in rollouts.items():
        yield problem_id, (tuple(row["prompt_ids"]), tuple(row["response_ids"])), row["reward"]
    if iteration not in run.iterations("values"):
        return
    for state in run.read_values(iteration):
        if state["returns_K"] and state["prefix_length"] and not state.get("predictor"):
            row = rollouts[state["problem_id"], state["rollout_index"]]
            prefix = tuple(row["response_ids"][: state["prefix_length"]])
            yield state["problem_id"], (tuple(row["prompt_ids"]), prefix), fmean(state["returns_K"])
