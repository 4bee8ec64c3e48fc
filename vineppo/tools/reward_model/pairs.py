"""Preference pairs as token ids: from rows of texts, and from the responses of runs."""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from statistics import fmean
from typing import Any

from vineppo.encoding import within
from vineppo.errors import UserError, naming
from vineppo.models import end_of_turn, load_tokenizer
from vineppo.run_dir import RunDir
from vineppo.run_dir.config import read_config
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.prompts import encode_prompt
from vineppo.tasks.rows import read_rows, text_field
from vineppo.tools.reward_model.config import JsonlPairs, RewardModelConfig, RunPairs
from vineppo.types import derive_seed

RIGHT = 0.5  # a reward above it is of a right response
Response = tuple[tuple[int, ...], tuple[int, ...]]  # the prompt's token ids, then the response's


@dataclass(frozen=True)
class Pair:
    """Two responses to one prompt; `name` says where it is from: "pairs.jsonl: row 3"."""

    name: str
    chosen: Response
    rejected: Response

    def __len__(self) -> int:
        """Tokens of the longer side."""
        return max(len(prompt) + len(response) for prompt, response in (self.chosen, self.rejected))


def load_pairs(config: RewardModelConfig, tokenizer: Any) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on and the pairs to evaluate on; they share no prompt.

    A pair over `optimization.max_tokens` is never cut, but refused or left out. Raises `UserError`
    for a bad row, a run with another tokenizer, and if no pair is left to train on.
    """
    pairs, num_test, test = config.pairs, config.pairs.num_test_pairs, None
    if isinstance(pairs, RunPairs):
        train = _run_pairs(pairs, config.seed, config.model.path, tokenizer)
    else:
        train = list(_text_pairs(pairs, pairs.train_path, tokenizer))
        if pairs.test_path is not None:
            test = list(islice(_text_pairs(pairs, pairs.test_path, tokenizer), num_test))

    def fitting(some: Sequence[Pair]) -> list[Pair]:
        items = [(pair.name, len(pair), pair) for pair in some]
        limit = config.optimization.max_tokens
        return within(limit, "optimization.max_tokens", items, pairs.too_long, "pair")

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


def _text_pairs(pairs: JsonlPairs, path: str, tokenizer: Any) -> Iterator[Pair]:
    """The answer ends as a policy's would, with the token that closes a turn or a text."""
    turn_id = end_of_turn(tokenizer)
    end_id = tokenizer.eos_token_id if turn_id is None else turn_id
    opening = pairs.prompt.response_prefix
    for where, row in read_rows(path):
        prompt, *answers = (text_field(row, key, where) for key in ("prompt", "chosen", "rejected"))
        answers = [text.removeprefix(opening) for text in answers]
        with naming(where):
            prompt_ids = encode_prompt(pairs.prompt, tokenizer, prompt, key="pairs.prompt")
            chosen, rejected = (encode(tokenizer, as_text(tokenizer, text)) for text in answers)
        yield Pair(where, (prompt_ids, (*chosen, end_id)), (prompt_ids, (*rejected, end_id)))


def _run_pairs(pairs: RunPairs, seed: int, model: str | None, tokenizer: Any) -> list[Pair]:
    """Pairs within each problem of the runs, over all iterations; equal responses are one."""
    worth: dict[str, dict[Response, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in pairs.run_dirs:
        policy = read_config(Path(path)).model.path
        vocabulary = load_tokenizer(policy, "model.path").get_vocab() if policy else None
        if vocabulary != tokenizer.get_vocab():
            raise UserError(f"pairs.run_dirs {path}: its policy must have the tokenizer of {model}")
        run = RunDir(path)
        read = _states if pairs.kind == "states" else _rollouts
        for iteration in run.iterations("rollouts"):
            for problem_id, response, value in read(run, iteration):
                worth[problem_id][response].append(value)
    drawn: list[Pair] = []
    for problem_id, values in worth.items():
        means = {response: fmean(found) for response, found in values.items()}
        problem_seed = derive_seed(seed, "pairs", problem_id)
        drawn += [
            Pair(problem_id, chosen, rejected)
            for chosen, rejected in draw_pairs(
                means, pairs.min_gap, pairs.pairs_per_problem, problem_seed
            )
        ]
    if not drawn:
        raise UserError(
            f"pairs.run_dirs {', '.join(pairs.run_dirs)}: no problem has {pairs.kind} whose values "
            f"differ by {pairs.min_gap:g}"
        )
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
    """(problem, response, 1 if it is right, else 0)."""
    for row in run.read_rollouts(iteration, ("problem_id", "prompt_ids", "response_ids", "reward")):
        response = tuple(row["prompt_ids"]), tuple(row["response_ids"])
        yield row["problem_id"], response, float(row["reward"] > RIGHT)


def _states(run: RunDir, iteration: int) -> Iterator[tuple[str, Response, float]]:
    """(problem, response up to a step boundary, mean return), without the bare prompts."""
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
