"""Published data sets: rows of the hub, or of a local file in their place."""

from collections.abc import Callable, Iterable, Mapping

from vineppo.config.schema import PublishedTaskConfig
from vineppo.errors import UserError
from vineppo.tasks.jsonl_file import Row, read_rows
from vineppo.types import Problem, Split


def load_published(
    config: PublishedTaskConfig,
    split: Split,
    hub_splits: Mapping[Split, str],
    problem_of_row: Callable[[Row, str, str], Problem],
) -> list[Problem]:
    """The problems of a set, from its local file where one is named, else from the hub.

    `hub_splits` names what the hub calls the task's sets; SVAMP's `{"test": "train+test"}` is a
    test set alone. `problem_of_row` gets a row, where it stands, and the problem's id. Raises
    UserError when the set cannot be had.
    """
    rows = _read_split(config, split, hub_splits)
    return [
        problem_of_row(row, where, f"{config.kind}/{split}/{index}")
        for index, (where, row) in enumerate(rows)
    ]


def _read_split(
    config: PublishedTaskConfig, split: Split, hub_splits: Mapping[Split, str]
) -> Iterable[tuple[str, Row]]:
    """(where, row) for every row of a set."""
    path = config.train_path if split == "train" else config.test_path
    if path is not None:
        return read_rows(path)
    if split not in hub_splits:
        raise UserError(
            f"task.{split}_path must name a file for task.kind {config.kind!r}, which has no "
            f"{split} set on the hub (`vineppo evaluate --task` needs none), got null"
        )
    return _hub_rows(config, split, hub_splits[split])


def _hub_rows(
    config: PublishedTaskConfig, split: Split, hub_split: str
) -> Iterable[tuple[str, Row]]:
    from datasets import load_dataset  # a second's import that local files do not need

    subset = "" if config.hub_name is None else f"/{config.hub_name}"
    source = f"{config.hub_path}{subset} [{hub_split}]"
    try:
        dataset = load_dataset(config.hub_path, config.hub_name, split=hub_split)
    # The hub's failures have no common type: connection, not found, gated, offline, bad subset.
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"task.hub_path {source} cannot be loaded ({type(error).__name__}: {reason}); "
            f"give a local file as task.{split}_path"
        ) from error
    return ((f"{source}: row {number}", row) for number, row in enumerate(dataset, start=1))
