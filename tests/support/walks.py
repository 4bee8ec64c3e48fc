"""Samples of the random walk: rollouts and vine values of known truth."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from support.random_walk import MARK, NEWLINE, TOKENIZER, RandomWalkEngine, problem, prompt_ids
from vineppo.config.load import load_config
from vineppo.config.schema import GradingConfig, SamplingConfig, TrainConfig, ValuesConfig
from vineppo.credit import Credit
from vineppo.credit.vine import VineCredit
from vineppo.engine import Completion, SampleRequest
from vineppo.experience import Experience, sample
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.segment import LinesSegmenter
from vineppo.tasks.environments import Environment
from vineppo.tasks.grading import Grader
from vineppo.token_scores import ForwardOptions, RolloutPass, TokenScores
from vineppo.types import TrainBatch
from vineppo.values import ValuePredictor, build_predictors

GRADING = GradingConfig("hash", None, 1, 10.0, 0.0, None)
CREDIT = VineCredit("vine", LinesSegmenter("lines"), 4, "share", None, False)
SHORT, LONG = 11, 400  # token budgets: many walks are cut off; next to none is
STARTS = (1, 2, 3)
PROMPTS = tuple(Prompt(problem(start), prompt_ids(start)) for start in STARTS)
DEMO = Path(__file__).parents[2] / "configs" / "demo_vineppo.jsonnet"


@cache
def demo() -> TrainConfig:
    return load_config(TrainConfig, str(DEMO), [])


def walk_config(
    max_tokens: int,
    seed: int,
    credit: Credit = CREDIT,
    num_samples: int = 6,
    values: ValuesConfig | None = None,
) -> TrainConfig:
    """The demo's, of which sampling looks at these keys."""
    config = demo()
    return replace(
        config,
        seed=seed,
        sampling=SamplingConfig(1.0, 1.0, max_tokens),
        credit=credit,
        rollouts=replace(config.rollouts, num_samples=num_samples),
        values=values or config.values,
    )


def walked(
    config: TrainConfig,
    engine: RandomWalkEngine | None = None,
    prompts_P: Sequence[Prompt] = PROMPTS,
    iteration: int = 1,
    grader: Any = None,
    reference_pass: Any = None,
    entropy_pass: RolloutPass | None = None,
    environment: Environment | None = None,
    predictors: Sequence[ValuePredictor] | None = None,
) -> tuple[Experience, RandomWalkEngine]:
    """An iteration's experience, and the engine that it was sampled with."""
    engine = engine or RandomWalkEngine()
    if predictors is None:
        predictors = build_predictors(config, None)  # no critic, so no model
    opened = Grader(GRADING) if grader is None else nullcontext(grader)
    with opened as grading, Progress(1, 0, 0.0) as progress:
        sampler = Sampler(
            engine, grading, TOKENIZER, config.sampling, config.seed, environment=environment
        )
        experience = sample(
            sampler, prompts_P, config, predictors, iteration, progress, reference_pass,
            entropy_pass,
        )  # fmt: skip
    return experience, engine


def entropies_of_lines(batch: TrainBatch, options: ForwardOptions) -> TokenScores:
    """1 where a line begins, but the answer's, and 0 elsewhere: cuts as lines cut."""
    ids_BT = batch.token_ids_BT
    is_start_BT = (ids_BT.roll(1, 1) == NEWLINE) & (ids_BT != MARK) & batch.response_mask_BT
    nothing_BT = torch.zeros(ids_BT.shape)
    assert options.has_entropy
    return TokenScores(nothing_BT, is_start_BT.float(), nothing_BT, nothing_BT, nothing_BT)


class SlottedEngine(RandomWalkEngine):
    """Runs eight requests at once, counts its steps, and notes after how many each request came."""

    def __init__(self) -> None:
        super().__init__()
        self.num_steps = 0
        self.submitted: list[tuple[int, SampleRequest]] = []
        self._waiting: list[Any] = []

    @property
    def num_unfinished(self) -> int:
        return len(self._running) + len(self._waiting)

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        self.submitted.append((self.num_steps, request))
        super().submit(request, done)
        self._waiting.append(self._running.pop())

    def step(self) -> None:
        self.num_steps += 1
        while self._waiting and len(self._running) < 8:
            self._running.append(self._waiting.pop(0))
        super().step()
