"""What the benchmarks of sampling run on: a policy in an engine, problems, a grader.

Without `--model` it is the demo with K = 9 (`configs/demo.jsonnet`). With it, the model answers
word problems made here (`configs/model.jsonnet`, on a CPU `configs/model_cpu.jsonnet`), through its
chat template where it has one. Nothing is downloaded but a model that is named by its hub name.
"""

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from benchmarks.harness import Options
from benchmarks.word_problems import write_word_problems
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.credit.vine import VineCredit
from vineppo.distributed import init_distributed
from vineppo.encoding import encode_problems
from vineppo.engine import Engine
from vineppo.experience import Experience, sample
from vineppo.models import load_model, load_tokenizer
from vineppo.progress import Progress
from vineppo.recipes.transformers_engine import TransformersConfig
from vineppo.rollouts import Prompt, Sampler, submit_rollouts
from vineppo.segment import steps_of
from vineppo.tasks import load_task
from vineppo.tasks.environments import build_environment
from vineppo.tasks.grading import Grader
from vineppo.types import MONTE_CARLO, Rollout
from vineppo.values.sampled import MonteCarlo

CONFIGS = Path(__file__).parent / "configs"
PLAIN_PROMPT = {"kind": "template", "template": "Question: {question}\nAnswer:"}
NUM_PROBLEMS, NUM_TEST_PROBLEMS = 1024, 2  # no benchmark takes more
ITERATION = 1

Result = TypeVar("Result")


@dataclass(frozen=True)
class Workload:
    """`train_P` are all problems; an iteration takes the first `num_prompts`."""

    config: TrainConfig
    sampler: Sampler
    stop_ids: tuple[int, ...]
    train_P: list[Prompt]

    @property
    def credit(self) -> VineCredit:
        assert isinstance(self.config.credit, VineCredit)
        return self.config.credit

    @property
    def prompts(self) -> list[Prompt]:
        return self.train_P[: self.config.rollouts.num_prompts]

    def varied(
        self, num_continuations: int | None = None, num_prompts: int | None = None
    ) -> "Workload":
        """The same engine with more or less to do."""
        count = num_continuations or self.credit.num_continuations
        credit = replace(self.credit, num_continuations=count)
        rollouts = self.config.rollouts
        rollouts = replace(rollouts, num_prompts=num_prompts or rollouts.num_prompts)
        return replace(self, config=replace(self.config, credit=credit, rollouts=rollouts))

    def timed(self, work: Callable[[], Result]) -> tuple[float, Result]:
        """Seconds of `work`, which finds nothing cached: neither prefixes nor graded answers."""
        self.sampler.engine.clear_cache()
        self.sampler.grader._memo.clear()  # a run's grader meets other problems every iteration
        gc.collect()
        started = time.perf_counter()
        result = work()
        return time.perf_counter() - started, result

    def experience(self) -> Experience:
        """Rollouts and values of an iteration, as training samples them: in one stream."""
        progress = Progress(1, 0, 0.0)
        predictors = [self._monte_carlo()]
        return sample(
            self.sampler, self.prompts, self.config, predictors, ITERATION, progress, None
        )

    def rollouts(self) -> list[Rollout]:
        """The rollouts of an iteration alone, split, in the order of prompts."""
        count = self.config.rollouts.num_samples
        pending = submit_rollouts(self.sampler, self.prompts, count, (ITERATION, "rollouts"))
        self.sampler.finish()
        by_key = pending.settle()
        rollouts = [by_key[p.problem.id, index] for p in self.prompts for index in range(count)]
        self.split(rollouts)
        return rollouts

    def split(self, rollouts: Sequence[Rollout]) -> None:
        for rollout in rollouts:
            rollout.spans_S = steps_of(rollout, self.credit.segmenter, self.sampler.tokenizer)

    def values(self, rollouts: Sequence[Rollout]) -> None:
        """The values of all states of finished rollouts: split, submit, sample, grade."""
        predictor = self._monte_carlo()
        stream = predictor.open_stream(self.sampler, ITERATION)
        self.split(rollouts)
        for rollout in rollouts:
            stream.submit(rollout)
        self.sampler.finish()
        predictor.merge(rollouts, [stream.settle()])

    def _monte_carlo(self) -> MonteCarlo:
        own = self.credit.monte_carlo
        assert own is not None, "the workload samples values"
        return MonteCarlo(MONTE_CARLO, self.config, own)


@contextmanager
def open_workload(options: Options) -> Iterator[Workload]:
    """Starts the engine. Raises `UserError` for a model that cannot be loaded."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="benchmark-")))
        config = workload_config(options, directory)
        loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
        train_P = encode_problems(config, loaded, load_task(config.task).train_P)
        grader = stack.enter_context(
            Grader(config.task.grading, opening=config.task.prompt.response_prefix)
        )
        init_distributed()
        engine = config.engine.build(loaded.engine_model)
        sampler = Sampler(
            engine, grader, loaded.tokenizer, config.sampling, config.seed,
            environment=build_environment(config.task, loaded.tokenizer, loaded.engine_model),
        )  # fmt: skip
        stop_ids = loaded.engine_model.stop_ids
        yield Workload(config, sampler, stop_ids, train_P)


def workload_config(options: Options, directory: Path) -> TrainConfig:
    """The checked config; a real model's problems are written to `directory`."""
    if options.model is None:
        assignments = demo_assignments()
        if options.is_quick:
            assignments += quick_assignments(num_prompts=8)
    else:
        assignments = model_assignments(options.model, directory)
        if options.is_quick:
            assignments += [*quick_assignments(num_prompts=2), "sampling.max_tokens=36"]
    return benchmark_config(CONFIGS, options, assignments)


def benchmark_config(configs: Path, options: Options, assignments: Sequence[str]) -> TrainConfig:
    """The folder's config of the demo or of a real model here, with the user's assignments last."""
    if options.model is None:
        leaf = "demo.jsonnet"
    else:
        leaf = "model.jsonnet" if torch.cuda.is_available() else "model_cpu.jsonnet"
    return load_config(TrainConfig, str(configs / leaf), [*assignments, *options.assignments])


def model_assignments(model: str, directory: Path) -> list[str]:
    for name, count, seed in (("train", NUM_PROBLEMS, 0), ("test", NUM_TEST_PROBLEMS, 1)):
        write_word_problems(directory / f"{name}.jsonl", count, seed)
    dtype = fast_dtype()
    assignments = [
        f"model.path={json.dumps(model)}",
        *(f"{table}.dtype={dtype}" for table in ("model", "engine")),
        "optimization.zero_stage=0",  # no bucket, nothing reduced over one rank
        *(f"task.{split}_path={directory / split}.jsonl" for split in ("train", "test")),
    ]
    if load_tokenizer(model, "--model").chat_template is None:
        assignments.append(f"task.prompt={json.dumps(PLAIN_PROMPT)}")
    return assignments


def demo_assignments() -> list[str]:
    """The demo's config is for a CPU, where nothing can be captured in CUDA graphs."""
    return ["engine.enforce_eager=false"] if torch.cuda.is_available() else []


def quick_assignments(num_prompts: int) -> list[str]:
    return [
        f"rollouts.num_prompts={num_prompts}",
        "rollouts.num_samples=2",
        f"optimization.batch_size={2 * num_prompts}",
        f"optimization.micro_batch_size={num_prompts}",
        "optimization.num_epochs=1",
        "credit.num_continuations=3",
    ]


def fast_dtype() -> str:
    """bfloat16 where the machine multiplies in it; emulated, it is slower than float32."""
    if torch.cuda.is_available():
        return "bfloat16"
    capabilities = torch.cpu.get_capabilities()
    has_bfloat16 = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return "bfloat16" if has_bfloat16 else "float32"


def describe_workload(config: TrainConfig) -> dict[str, Any]:
    """The data to sample and train on, for the JSON of a benchmark."""
    segmenter = getattr(config.credit, "segmenter", None)
    return {
        "prompts": config.rollouts.num_prompts,
        "samples_per_prompt": config.rollouts.num_samples,
        "max_tokens": config.sampling.max_tokens,
        "max_num_seqs": config.engine.max_num_seqs,
        "K": getattr(config.credit, "num_continuations", None),
        "segmenter": None if segmenter is None else asdict(segmenter),
        "dtype": config.model.dtype,
    }


def with_shared_prefixes(config: TrainConfig) -> TrainConfig:
    """The transformers engine, which reads a prefix once for all that continue it, as large."""
    names = ("dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens")
    settings = {name: getattr(config.engine, name) for name in names}
    return replace(config, engine=TransformersConfig("transformers", **settings))


def llm_of(engine: Engine) -> Any:
    """vLLM's own `LLM` inside the engine, to sample on the very same weights and memory."""
    return engine._llm  # type: ignore[attr-defined]
