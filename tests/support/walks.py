"""What is gathered from the random walk: rollouts and vine values of known truth."""

from collections.abc import Callable
from types import SimpleNamespace

from support.random_walk import TOKENIZER, RandomWalkEngine, problem, prompt_ids
from vineppo.config.schema import GradingConfig, LinesSegmenter, SamplingConfig, VineCredit
from vineppo.engine import Completion, SampleRequest
from vineppo.experience import Experience, gather_experience
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.segment import build_segmenter
from vineppo.tasks.grading import Grader

GRADING = GradingConfig("hash", None, 1, 10.0, 0.0)


CREDIT = VineCredit("vine", 4, LinesSegmenter("lines"), "share")


SHORT, LONG = 11, 400  # token budgets: many walks are cut off; next to none is


STARTS = (1, 2, 3)


def gather(
    max_tokens: int,
    seed: int,
    credit: VineCredit = CREDIT,
    num_samples: int = 6,
    iteration: int = 1,
    engine: RandomWalkEngine | None = None,
    grader_type: type[Grader] = Grader,
) -> tuple[Experience, RandomWalkEngine]:
    engine = engine or RandomWalkEngine()
    prompts_P = [Prompt(problem(start), prompt_ids(start)) for start in STARTS]
    sampling = SamplingConfig(1.0, 1.0, max_tokens)
    with grader_type(GRADING) as grader, Progress(1, 0, 0.0) as progress:
        sampler = Sampler(engine, grader, TOKENIZER, sampling, seed)
        experience = gather_experience(
            sampler,
            prompts_P,
            SimpleNamespace(credit=credit, rollouts=SimpleNamespace(num_samples=num_samples)),
            build_segmenter(credit.segmenter),
            iteration,
            progress,
            None,
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
