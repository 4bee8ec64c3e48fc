"""Problems as token ids, and what becomes of those that are too long."""

from collections.abc import Sequence
from typing import TypeVar

from vineppo.config.schema import SftConfig, TooLong, TrainConfig
from vineppo.distributed import is_main
from vineppo.errors import UserError, naming
from vineppo.models import LoadedModel
from vineppo.rollouts import Prompt
from vineppo.tasks.environments import Episode, build_environment
from vineppo.tasks.prompts import encode_prompt
from vineppo.types import Problem

Item = TypeVar("Item")


def encode_problems(
    config: TrainConfig | SftConfig,
    loaded: LoadedModel,
    problems: Sequence[Problem],
    too_long: TooLong = "refuse",
) -> list[Prompt]:
    """Prompts as token ids; what becomes of those that leave too little room for a response.

    They are refused, or left out of the train problems if `task.too_long` says so. Test problems
    are always refused: an accuracy over fewer would be another one.
    """
    positions = getattr(loaded.model.config, "max_position_embeddings", None)
    if positions is not None and config.engine.max_model_len > positions:
        raise UserError(
            f"config: engine.max_model_len must be at most the model's {positions} positions, got "
            f"{config.engine.max_model_len}"
        )
    environment = build_environment(config.task, loaded.tokenizer, loaded.engine_model)
    room, longest = config.sampling.max_tokens, "sampling.max_tokens"
    if isinstance(config, TrainConfig) and config.max_valued_tokens > room:
        room, longest = room + 1, f"{longest} - 1 (credit.kind)"

    def encode(problem: Problem) -> tuple[int, ...]:
        with naming(f"problem {problem.id}"):
            ids = encode_prompt(
                config.task.prompt, loaded.tokenizer, problem.question, problem.context
            )
        if environment is not None:
            ids = (*ids, *Episode(environment, problem, config.sampling.max_tokens).opening_ids)
        return ids

    prompts = [Prompt(problem, encode(problem)) for problem in problems]
    items = [(prompt.problem.id, len(prompt.token_ids), prompt) for prompt in prompts]
    name = f"engine.max_model_len - {longest}"
    return within(config.engine.max_model_len - room, name, items, too_long)


def within(
    limit: int,
    name: str,
    items: Sequence[tuple[str, int, Item]],
    too_long: TooLong,
    noun: str = "problem",
) -> list[Item]:
    """The items of (id, number of tokens, item) that `limit` has room for.

    Raises `UserError` for the first that is longer, or leaves all of them out and says how many.
    """
    longer = [(item_id, length) for item_id, length, _ in items if length > limit]
    if longer and too_long == "refuse":
        item_id, length = longer[0]
        raise UserError(
            f"{noun} {item_id} has {length} tokens, which must be at most {name} = {limit}"
        )
    if longer and len(longer) == len(items):
        raise UserError(f"all {len(items)} train {noun}s are longer than {name} = {limit}")
    if longer and is_main():
        few = ", ".join(item_id for item_id, _ in longer[:3]) + ", …" * (len(longer) > 3)
        count = f"{len(longer)} of {len(items)} train {noun}s"
        print(f"left out {count}, longer than {name} = {limit}: {few}")
    return [item for _, length, item in items if length <= limit]
