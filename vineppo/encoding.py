"""Problems as token ids, and what becomes of those that are too long."""

from collections.abc import Iterable, Sequence
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


def encode_train_problems(
    config: TrainConfig | SftConfig, loaded: LoadedModel, problems: Sequence[Problem]
) -> list[Prompt]:
    """`encode_problems`, without the too long ones where `task.too_long` leaves them out."""
    return encode_problems(config, loaded, problems, config.task.too_long)


def encode_problems(
    config: TrainConfig | SftConfig,
    loaded: LoadedModel,
    problems: Sequence[Problem],
    too_long: TooLong = "refuse",
) -> list[Prompt]:
    """Prompts as token ids; one that leaves too little room for a response is refused.

    Test problems always are: an accuracy over fewer would be another one.
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

    encoded = ((p, encode(p)) for p in problems)
    return within(
        config.engine.max_model_len - room,
        f"engine.max_model_len - {longest}",
        ((p.id, len(ids), "a prompt of ", Prompt(p, ids)) for p, ids in encoded),
        too_long,
    )


def within(
    limit: int,
    name: str,
    items: Iterable[tuple[str, int, str, Item]],
    too_long: TooLong,
    noun: str = "problem",
) -> list[Item]:
    """The items of (name, number of tokens, what they are, item) that `limit` has room for.

    Raises `UserError` for the first that it has none for, or leaves all of them out and says how
    many. `noun` is what the items are.
    """
    kept: list[Item] = []
    left_out: list[str] = []
    for item_name, length, what, item in items:
        if length <= limit:
            kept.append(item)
        elif too_long == "leave_out":
            left_out.append(item_name)
        else:
            raise UserError(
                f"{noun} {item_name} has {what}{length} tokens, which must be at most "
                f"{name} = {limit}"
            )
    if not kept and left_out:
        raise UserError(f"all {len(left_out)} train {noun}s are longer than {name} = {limit}")
    if left_out and is_main():
        few = ", ".join(left_out[:3]) + ", …" * (len(left_out) > 3)
        count = f"{len(left_out)} of {len(left_out) + len(kept)} train {noun}s"
        print(f"left out {count}, longer than {name} = {limit}: {few}")
    return kept
