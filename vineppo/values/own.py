"""Values by a user's own file, which holds a class `Predictor` (docs/extending.md)."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vineppo.config.schema import PythonValues, TrainConfig
from vineppo.distributed import is_main
from vineppo.errors import UserError
from vineppo.own_code import OwnClass
from vineppo.rollouts import Sampler
from vineppo.types import Rollout
from vineppo.values.generated import GeneratedValues
from vineppo.values.predictor import ValueStream


class OwnPredictor(GeneratedValues):
    """`Predictor(options)` of the file.

    It has `values(rollouts)`, one number a step, and reads the policy's hidden states where its
    `reads_hidden` is true; or, to have the policy write the values, `ask(state_ids, tokenizer)`,
    `read(text)` and `answer_tokens`, perhaps with `num_samples` and `temperature`.

    Optional: `update(rollouts) -> dict` trains, after the rollouts have been valued, and returns
    metrics; `save(directory)` and `load(directory)` keep what it learned over a resume, and for
    the analyses.
    """

    def __init__(self, name: str, config: TrainConfig, own: PythonValues, *_: object) -> None:
        super().__init__(name, config)
        self._path = own.path
        predictor = OwnClass(own.path).load()
        try:
            self._own = predictor(own.options)
        except TypeError as error:
            raise UserError(f"{own.path}: Predictor must take the options: {error}") from error
        for means in ("reads_hidden", "answer_tokens", "num_samples", "temperature"):
            if hasattr(self._own, means):
                setattr(self, means, getattr(self._own, means))
        self.is_sampled = hasattr(self._own, "ask")

    def open_stream(self, sampler: Sampler, iteration: int) -> ValueStream | None:
        return super().open_stream(sampler, iteration) if self.is_sampled else None

    def ask(self, state_ids: tuple[int, ...], tokenizer: Any) -> Sequence[int]:
        asked_ids: Sequence[int] = self._own.ask(state_ids, tokenizer)
        return asked_ids

    def read(self, text: str) -> float:
        number: float = self._own.read(text)
        return number

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        """Raises `UserError` where the numbers of values and steps differ, or one is not finite."""
        if self.is_sampled:
            return
        values = [list(map(float, values_S)) for values_S in self._own.values(rollouts)]
        if len(values) != len(rollouts):
            raise UserError(
                f"{self._path}: values must return a list for each of {len(rollouts)} rollouts, "
                f"got {len(values)}"
            )
        for number, (rollout, values_S) in enumerate(zip(rollouts, values, strict=True)):
            if len(values_S) != len(rollout.spans_S):
                raise UserError(
                    f"{self._path}: values must return a number for every step, of rollout "
                    f"{number} {len(rollout.spans_S)}, got {len(values_S)}"
                )
        for values_S in values:
            for value in values_S:
                if not math.isfinite(value):
                    raise UserError(f"{self._path}: values must be finite, got {value}")
        self.set_values(rollouts, values)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        if not hasattr(self._own, "update"):
            return {}
        metrics: dict[str, float] = self._own.update(rollouts) or {}
        return {f"{self.metrics_group}/{key}": float(value) for key, value in metrics.items()}

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, own: PythonValues, directory: Path | None
    ) -> "OwnPredictor | None":
        predictor = cls(name, config, own)
        if directory is not None and hasattr(predictor._own, "load"):
            if not (directory / name).is_dir():
                return None
            predictor.load_state(directory / name)
        return predictor

    def save_hf(self, directory: Path) -> None:
        self.save_state(directory)

    def save_state(self, directory: Path) -> None:
        if hasattr(self._own, "save") and is_main():
            directory.mkdir(parents=True, exist_ok=True)
            self._own.save(directory)

    def load_state(self, directory: Path) -> None:
        if hasattr(self._own, "load"):
            self._own.load(directory)
