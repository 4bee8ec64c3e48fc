"""What is sampled from the random walk: rollouts and vine values of known truth."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from support.random_walk import TOKENIZER, RandomWalkEngine, problem, prompt_ids
from vineppo.config.load import load_config
from vineppo.config.schema import (
    CreditConfig,
    GradingConfig,
    LinesSegmenter,
    SamplingConfig,
    TrainConfig,
    ValuesConfig,
    VineCredit,
)
from vineppo.engine import Completion, SampleRequest
from vineppo.experience import Experience, sample
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.segment import build_segmenter
from vineppo.tasks.grading import Grader
from vineppo.values import build_predictors

GRADING = GradingConfig("hash", None, 1, 10.0, 0.0)
CREDIT = VineCredit("vine", 4, LinesSegmenter("lines"), "share")
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
    credit: CreditConfig = CREDIT,
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
) -> tuple[Experience, RandomWalkEngine]:
    """An iteration's experience, and the engine that it was sampled with."""
    engine = engine or RandomWalkEngine()
    predictors = build_predictors(config, None)  # no critic, so no model
    opened = Grader(GRADING) if grader is None else nullcontext(grader)
    with opened as grading, Progress(1, 0, 0.0) as progress:
        sampler = Sampler(engine, grading, TOKENIZER, config.sampling, config.seed)
        segmenter = build_segmenter(config.credit.segmenter)
        experience = sample(
            sampler, prompts_P, config, segmenter, predictors, iteration, progress, reference_pass
        )
    return experience, engine


class SlottedEngine(RandomWalkEngine):
    """Runs eight requests at once, counts its steps, and notes after how many each request came."""

    def __init__(self) -> None:
        super().__init__()
        self.num_steps = 0
        self.submitted: list[tuple[int, SampleRequest]] = []

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        self.submitted.append((self.num_steps, request))
        super().submit(request, done)

    def step(self) -> None:
        self.num_steps += 1
        waiting, self._running = self._running[8:], self._running[:8]
        super().step()
        self._running += waiting
