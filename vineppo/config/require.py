"""Refusals of a config in one line that names its keys."""

import math
import operator
from typing import TYPE_CHECKING, Any

from vineppo.errors import UserError

if TYPE_CHECKING:
    from vineppo.config.schema import AnyConfig, SftConfig, TrainConfig

ORDERS = {"at most": operator.le, "at least": operator.ge, "below": operator.lt}


def require(holds: bool, message: str) -> None:
    """Raises `UserError` with the message, which names the keys, unless it holds."""
    if not holds:
        raise UserError(f"config: {message}")


def at(node: Any, key: str) -> Any:
    """What is at a dotted key of a config; the name of a predictor may have dots of its own."""
    names = node if isinstance(node, dict) else vars(node)
    if key in names:
        return names[key]
    name = max((name for name in names if key.startswith(f"{name}.")), key=len)
    return at(names[name], key.removeprefix(f"{name}."))


def require_order(config: "AnyConfig", key: str, order: str, bound: str) -> None:
    """The number at a dotted key is "at most", say, that at another, or the product of several."""
    value = at(config, key)
    limit = math.prod(at(config, factor) for factor in bound.split(" * "))
    require(ORDERS[order](value, limit), f"{key} must be {order} {bound} = {limit}, got {value}")


def require_one_null(config: "TrainConfig | SftConfig", first: str, second: str) -> None:
    num_nulls = [at(config, key) for key in (first, second)].count(None)
    require(
        num_nulls == 1,
        f"exactly one of {first} and {second} must be null, got "
        + ("two nulls" if num_nulls else "two values"),
    )
