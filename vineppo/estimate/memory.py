"""What fills the memory of a rank, line by line, at each moment of an iteration. Pure; bytes.

Weights, gradients and optimizer states under ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054,
section 3), with what DeepSpeed 0.19 keeps besides.
"""

from dataclasses import dataclass

Lines = dict[str, int]

# DeepSpeed's defaults, which the configs leave alone (`reduce_bucket_size` and
# `stage3_max_live_parameters`), in elements.
BUCKET = 500_000_000
LIVE_PARAMETERS = 1_000_000_000

# Float32 tensors of a chunk that are alive at once in `vocabulary.py`'s backward pass.
CHUNK_TENSORS = 4


@dataclass(frozen=True)
class Passes:
    """What the passes of a model hold on one rank, in bytes.

    `saved`: what the backward pass of a micro-batch needs, logits aside. `logits`: those of a
    micro-batch. `chunk`: float32 temporaries of a part of them. `scoring`: one layer of a pass
    without gradient.
    """

    saved: int
    logits: int
    chunk: int
    scoring: int


@dataclass(frozen=True)
class Trainee:
    """A model under DeepSpeed and AdamW, as one rank holds it; `num_trained` parameters train.

    1.5 billion bfloat16 parameters under stage 1 on one rank: 3 GB of weights, 6 GB of float32
    weights, 12 GB of moments, and 3 GB of gradients while there are any.
    """

    name: str
    num_parameters: int
    num_trained: int
    bytes_per_weight: int
    zero_stage: int
    num_ranks: int
    is_on_gpu: bool
    offload: str  # `optimization.offload`
    passes: Passes

    def resident(self, is_sampling: bool = False) -> Lines:
        """What stays from one iteration to the next, where the trainer works or the engine."""
        num_shards = self.num_ranks if self.zero_stage == 3 else 1
        lines = {"weights": self.bytes_per_weight * self.num_parameters // num_shards}
        if not (self.is_on_gpu and self.offload == "while_sampling" and is_sampling):
            if not self._is_optimizer_elsewhere:
                lines |= self._states()
            if self.zero_stage == 3:  # DeepSpeed makes these before the first pass, for good
                lines |= self._gradient_buffers()
        return self._named(lines)

    def in_scoring(self) -> Lines:
        return self._named(self._gathered() | {"activations": self.passes.scoring})

    def in_backward(self) -> Lines:
        """At the start of the last micro-batch's backward pass, when most is alive."""
        lines = self._gathered() | {
            "activations": self.passes.saved,
            "logits": self.passes.logits,
            "softmax of a chunk": self.passes.chunk,
        }
        return self._named(lines | self._gradient_buffers())

    def in_step(self) -> Lines:
        """While the optimizer steps: this rank's share of the gradients as they came, flat, and in
        float32. Stage 1 has reduced all of them just before; so has stage 0 where there are several
        ranks, through a flat copy.
        """
        p, e, n = self.num_trained, self.bytes_per_weight, self.num_ranks
        step = (2 * e + 4) * p // n
        if self.zero_stage == 0:
            step = e * (p + (min(p, BUCKET) if n > 1 else 0))
        if self._is_optimizer_elsewhere:
            step = self._gradients()  # the step is the CPU's
        if self.zero_stage == 1:
            step = max(step, self._gradients() + e * p // n + self._bucket())
        lines = {"gradients": step}
        if not self.is_on_gpu:
            # Freed, but malloc keeps pieces below 32 MiB, and a pass on a CPU has no larger ones.
            lines["activations, kept by malloc"] = self.passes.saved
        return self._named(lines)

    @property
    def _is_optimizer_elsewhere(self) -> bool:
        return self.is_on_gpu and self.offload == "optimizer"

    def _states(self) -> Lines:
        p, n = self.num_trained, self.num_ranks
        if self.zero_stage == 0:
            return {"Adam's moments": 8 * p}
        return {"float32 weights": 4 * p // n, "Adam's moments": 8 * p // n}

    def _gradient_buffers(self) -> Lines:
        bucket = {"gradient bucket": self._bucket()} if self.zero_stage >= 1 else {}
        return {"gradients": self._gradients(), **bucket}

    def _gradients(self) -> int:
        whole = self.bytes_per_weight * self.num_trained
        share = whole // self.num_ranks
        accumulated = 0 if self._is_optimizer_elsewhere else share
        match self.zero_stage:
            case 0 | 1:
                return whole
            case 2:
                return accumulated + share  # this micro-batch's
            case _:
                return accumulated

    def _bucket(self) -> int:
        """A CPU gives memory only to what is written; under stage 1 gradients move into it."""
        if self.is_on_gpu:
            return self.bytes_per_weight * BUCKET
        if self.zero_stage == 1:
            return 0
        return self.bytes_per_weight * min(self.num_trained, BUCKET)

    def _gathered(self) -> Lines:
        if self.zero_stage < 3:
            return {}
        live = min(self.num_parameters, LIVE_PARAMETERS)
        return {"gathered weights": self.bytes_per_weight * live}

    def _named(self, lines: Lines) -> Lines:
        return {f"{self.name}: {line}": size for line, size in lines.items()}


@dataclass(frozen=True)
class Engine:
    """The sampler of one rank: what it holds while it samples, and what while the trainer works."""

    awake: Lines
    beside: Lines


def moments(
    process: Lines,
    trainees: list[Trainee],
    reference: Lines,
    reference_pass: Lines,
    engine: Engine,
) -> dict[str, Lines]:
    """Every line of every moment; the peak of the run is the largest sum.

    The trainees are updated one after the other, and each one's states stay all the time. A line
    that a moment has by the name of one that stays, such as a share's gradients, includes it.
    """
    sampling, beside = process | reference, process | reference | engine.beside
    for trainee in trainees:
        sampling |= trainee.resident(is_sampling=True)
        beside |= trainee.resident()
    found = {"sampling": sampling | reference_pass | engine.awake}
    for trainee in trainees:
        found[f"scoring, {trainee.name}"] = beside | trainee.in_scoring()
        found[f"backward, {trainee.name}"] = beside | trainee.in_backward()
        found[f"step, {trainee.name}"] = beside | trainee.in_step()
    return found


def peak(found: dict[str, Lines]) -> tuple[str, int]:
    """The moment that needs most, and how many bytes."""
    totals = {moment: sum(lines.values()) for moment, lines in found.items()}
    moment = max(totals, key=lambda m: totals[m])
    return moment, totals[moment]
