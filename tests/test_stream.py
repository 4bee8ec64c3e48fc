"""What goes on while rollouts and continuations are sampled, and what must not wait."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from support.random_walk import TOKENIZER, problem, prompt_ids
from support.walks import CREDIT, GRADING, SlottedEngine

from vineppo.config.schema import SamplingConfig
from vineppo.experience import gather_experience
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.segment import build_segmenter
from vineppo.tasks.grading import Grader


@dataclass
class Verdict:
    """A reward that must not be asked for while the engine has work."""

    of: object
    engine: SlottedEngine

    def result(self):
        assert not self.engine.num_unfinished, "the stream waits for a grader"
        return self.of.result()


@dataclass
class NotingGrader:
    grader: Grader
    engine: SlottedEngine
    steps: list = field(default_factory=list)  # of the engine, before each call

    def reads(self, finish_reason):
        return self.grader.reads(finish_reason)

    def submit(self, *arguments):
        self.steps.append(self.engine.num_steps)
        return Verdict(self.grader.submit(*arguments), self.engine)


@dataclass
class NotingReferencePass:
    """Due at every fourth rollout and at the last one."""

    engine: SlottedEngine
    added: dict = field(default_factory=dict)
    num_due: int = 0
    worked: list = field(default_factory=list)  # (rollouts so far, requests left in the engine)

    def add(self, key, _prompt_ids, response_ids):
        self.added[key] = response_ids
        self.num_due += 1

    def is_due(self, is_last):
        return self.num_due >= (1 if is_last else 4)

    def work(self):
        self.num_due = 0
        self.worked.append((len(self.added), self.engine.num_unfinished))

    def finish(self):
        return {key: (-1.0,) * len(ids) for key, ids in self.added.items()}


def test_graders_and_the_reference_work_while_the_engine_does():
    engine = SlottedEngine()
    reference_pass = NotingReferencePass(engine)
    prompts_P = [Prompt(problem(start), prompt_ids(start)) for start in (1, 2, 3)]
    with Grader(GRADING) as inner, Progress(1, 0, 0.0) as progress:
        grader = NotingGrader(inner, engine)
        found = gather_experience(
            Sampler(engine, grader, TOKENIZER, SamplingConfig(1.0, 1.0, 60), 5),
            prompts_P,
            SimpleNamespace(credit=CREDIT, rollouts=SimpleNamespace(num_samples=6)),
            build_segmenter(CREDIT.segmenter),
            1,
            progress,
            reference_pass,
        )
    assert len(grader.steps) == 18 + found.num_continuations
    # Half of the answers are with the graders at half of the time.
    assert sorted(grader.steps)[len(grader.steps) // 2] < 0.6 * engine.num_steps
    # The reference began before the last rollout was there, and ended before the engine did.
    assert reference_pass.worked[0][0] < 18 == reference_pass.worked[-1][0]
    assert all(left > 0 for _, left in reference_pass.worked)
    assert [len(row) for row in found.ref_logprobs] == [
        len(rollout.response_ids) for rollout in found.rollouts
    ]
