"""The table of `kl-efficiency`: how far a run's checkpoint is from the start, and how good."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.frames import Run, learning_curve
from analysis.old_tables import estimate_columns
from analysis.stats.bootstrap import Estimate
from vineppo.errors import UserError

TABLE_NAME = "kl_efficiency.csv"
UNKNOWN = Estimate(float("nan"), None, None)


@dataclass(frozen=True)
class KlRow:
    """A checkpoint of one run; intervals of 95 % over problems, None where there are none.

    `kl_per_token` is in nats a token, `kl_per_sequence` in nats a response. `kl_source` and
    `pass_source` say where the numbers are from; `sample_pass_at_1` is that of the responses of
    which the KL is, at the training temperature. None where nothing was sampled.
    """

    run_dir: str
    method: str
    seed: int
    iteration: int
    kl_source: str
    kl_per_token: float
    kl_per_token_low: float | None
    kl_per_token_high: float | None
    kl_per_sequence: float
    kl_per_sequence_low: float | None
    kl_per_sequence_high: float | None
    pass_source: str
    pass_at_1: float
    pass_at_1_low: float | None
    pass_at_1_high: float | None
    sample_pass_at_1: float | None
    sample_pass_at_1_low: float | None
    sample_pass_at_1_high: float | None
    num_problems: int | None
    samples_per_problem: int | None
    response_length: float | None

    def estimate(self, name: str) -> Estimate:
        """A field with its bounds: `row.estimate("pass_at_1")`."""
        low, high = (getattr(self, f"{name}_{end}") for end in ("low", "high"))
        return Estimate(getattr(self, name), low, high)


def seed_of(run: Run) -> int:
    if not isinstance(run.seed, int):
        raise UserError(f"{run.path}: config.json has no seed")
    return run.seed


def evaluations_of(run: Run) -> dict[int, Estimate]:
    """pass@1 by iteration, with intervals over problems."""
    curve = learning_curve(run).set_index("iteration")[["pass@1", "low", "high"]]
    return {
        int(iteration): Estimate(value, *(None if pd.isna(end) else end for end in ends))
        for iteration, value, *ends in curve.itertuples()
    }


def evaluation_source(run: Run) -> str:
    """`evaluation (temperature 1, top_p 1)`."""
    settings = run.config.get("evaluation", {})
    return f"evaluation (temperature {settings.get('temperature')}, top_p {settings.get('top_p')})"


def metric_rows(run: Run) -> list[KlRow]:
    """The evaluated iterations whose KL the run itself logged while it trained.

    `kl/ref` of iteration i + 1 is that of the rollouts which checkpoint i sampled; so the last
    checkpoint has none. Raises `UserError` where the reference is not the starting policy, and
    where no iteration has both.
    """
    reference = run.config.get("reference", {})
    start = run.config.get("model", {}).get("path")
    if reference.get("path") not in (None, start):
        raise UserError(
            f"{run.path}: kl/ref is the KL to {reference['path']}, which is not the starting "
            f"policy {start}; take --source samples"
        )
    metrics = {row["iteration"]: row for row in run.metrics.to_dict("records")}
    rows = []
    for iteration, point in evaluations_of(run).items():
        logged = metrics.get(iteration + 1, {})
        if any(pd.isna(logged.get(name)) for name in ("kl/ref", "kl/ref_per_sequence")):
            continue
        rows.append(
            make_row(
                run,
                iteration,
                kl_source=f"kl/ref ({reference.get('kl_estimator')})",
                kl_per_token=Estimate(logged["kl/ref"], None, None),
                kl_per_sequence=Estimate(logged["kl/ref_per_sequence"], None, None),
                pass_source=evaluation_source(run),
                pass_at_1=point,
                sample_pass_at_1=UNKNOWN,
                num_problems=None,
                samples_per_problem=None,
                response_length=logged.get("rollout/response_length_mean"),
            )
        )
    if not rows:
        raise UserError(f"{run.path} logged no kl/ref of a policy that was evaluated")
    return rows


def make_row(run: Run, iteration: int, **cells: object) -> KlRow:
    """`cells` by field; an `Estimate` fills three."""
    columns: dict[str, object] = {}
    for name, cell in cells.items():
        columns |= estimate_columns(name, cell) if isinstance(cell, Estimate) else {name: cell}
    return KlRow(
        run_dir=str(run.path), method=run.name, seed=seed_of(run), iteration=iteration, **columns  # type: ignore[arg-type]
    )  # fmt: skip


def check_one_start(runs: Sequence[Run]) -> None:
    """Refuses runs of several starting policies (`UserError`)."""
    starts = [run.config.get("model", {}).get("path") for run in runs]
    for run, start in zip(runs, starts, strict=True):
        if start != starts[0]:
            raise UserError(
                f"{runs[0].path} and {run.path} start from {starts[0]} and {start}; KL to two "
                "policies does not compare"
            )


def check_measured_alike(rows: Sequence[KlRow]) -> None:
    """Refuses an exact KL beside a logged one and differently measured pass@1 (`UserError`).

    Tables that are drawn again hold no config that would tell.
    """
    for row in rows:
        for there, here in (
            (rows[0].kl_source.partition(" ")[0], row.kl_source.partition(" ")[0]),
            (rows[0].pass_source, row.pass_source),
        ):
            if there != here:
                raise UserError(
                    f"{rows[0].run_dir} and {row.run_dir} are measured differently: by {there} in "
                    f"the one and {here} in the other"
                )
