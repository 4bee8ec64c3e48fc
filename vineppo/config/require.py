"""Refusals of a config in one line that names its keys."""

from vineppo.errors import UserError


def require(holds: bool, message: str) -> None:
    """Raises `UserError` with the message, which names the keys, unless it holds."""
    if not holds:
        raise UserError(f"config: {message}")


def require_at_most(key: str, number: float, bound: str, limit: float) -> None:
    """`number` at `key` must not exceed `limit`, which `bound` names."""
    require(number <= limit, f"{key} must be at most {bound} = {limit}, got {number}")


def require_one(first: str, second: str, *values: object) -> None:
    """One of two keys must be null, and the other not."""
    is_null = [value is None for value in values]
    require(sum(is_null) == 1, f"either {first} or {second} must be null, got {list(values)}")


def require_holding(key: str, template: str, field: str) -> None:
    """A template must hold its field, such as "{question}"."""
    require(field in template, f"{key} must contain {field}, got {template!r}")
