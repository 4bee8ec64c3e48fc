"""The policy under training: a DeepSpeed engine around an HF model."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vineppo.config.schema import AdamConfig
from vineppo.models import LoadedModel, TokenLogprobs, named_weights
from vineppo.types import TrainBatch

# (batch, logprobs_BT, entropy_BT) → the micro-batch's summand of the loss, and numbers to keep.
LossFunction = Callable[
    [TrainBatch, torch.Tensor, torch.Tensor], tuple[torch.Tensor, dict[str, torch.Tensor]]
]


@dataclass(frozen=True)
class Update:
    """What one update did: the numbers of each micro-batch, and the norm before clipping."""

    stats: list[dict[str, float]]
    grad_norm: float | None  # None where the update was skipped


class Policy:
    """Log-probabilities, updates and weights of the policy.

    Gradients accumulate over however many micro-batches an update has; reduction, clipping and the
    optimizer's step happen once, at its end (DeepSpeed's `managed_gradient_accumulation: false`).
    """

    def __init__(
        self,
        loaded: LoadedModel,
        optimization: AdamConfig,
        gradient_checkpointing: bool,
    ) -> None:
        init_distributed()
        import deepspeed

        # The shared-memory operation is compiled at its first use; gloo needs no compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        self.tokenizer = loaded.tokenizer
        self._hf_model = loaded.model
        if gradient_checkpointing:
            self._hf_model.gradient_checkpointing_enable({"use_reentrant": False})
            self._hf_model.train()  # HF checkpoints in training mode alone; dropout is off
        self._num_token_ids = loaded.engine_model.num_token_ids
        module = TokenLogprobs(self._hf_model, self._num_token_ids)
        self._zero_stage = optimization.zero_stage
        self._is_plain = optimization.zero_stage == 0 and loaded.model.dtype == torch.float32
        self._max_grad_norm = optimization.max_grad_norm
        adam = torch.optim.AdamW(
            module.parameters(),
            lr=optimization.learning_rate,
            betas=(optimization.adam_beta1, optimization.adam_beta2),
            eps=optimization.adam_eps,
            weight_decay=optimization.weight_decay,
        )
        self._grad_norm: float | None = None
        if self._is_plain:
            adam.register_step_pre_hook(self._clip)
        self._engine, *_ = deepspeed.initialize(
            model=module, optimizer=adam, config=self._deepspeed_config(optimization)
        )

    @property
    def device(self) -> torch.device:
        return self._engine.device

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π of every response token, [B, T] on the CPU, without gradient."""
        logprobs_BT, _ = self._engine(batch, temperature)
        return logprobs_BT.cpu()

    def update(
        self,
        micro_batches: Sequence[TrainBatch],
        loss: LossFunction,
        temperature: float,
        learning_rate: float,
        is_accepted: Callable[[list[dict[str, float]]], bool],
    ) -> Update:
        """One optimizer step on Σ loss(micro-batch); none unless `is_accepted` of its numbers."""
        numbers_by_batch = []
        for batch in micro_batches:
            logprobs_BT, entropy_BT = self._engine(batch, temperature)
            summand, numbers = loss(batch, logprobs_BT, entropy_BT)
            self._engine.backward(summand, scale_wrt_gas=False)
            numbers_by_batch.append({name: x.detach() for name, x in numbers.items()})
        stats = [{name: x.item() for name, x in numbers.items()} for numbers in numbers_by_batch]
        if not is_accepted(stats):
            self._discard_gradients()
            return Update(stats, None)
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        self._engine.step()
        norm = self._grad_norm if self._is_plain else self._engine.get_global_grad_norm()
        return Update(stats, float(norm) if norm is not None else float("nan"))

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names of the HF checkpoint and tensors, one gathered from its ZeRO-3 shards at a time."""
        for name, parameter in named_weights(self._hf_model):
            with self._gathered([parameter]):
                yield name, parameter.detach()

    def save_hf(self, directory: Path) -> None:
        """The policy in HF format with its tokenizer, loadable by transformers and vLLM."""
        with self._gathered(list(self._hf_model.parameters())):
            self._hf_model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

    def save_state(self, directory: Path) -> None:
        """Weights in full precision and the optimizer's state."""
        self._engine.save_checkpoint(str(directory), tag="state")

    def load_state(self, directory: Path) -> None:
        self._engine.load_checkpoint(str(directory), tag="state")

    def _gathered(self, parameters: list[Any]) -> Any:
        if self._zero_stage < 3:
            return nullcontext()
        import deepspeed

        return deepspeed.zero.GatheredParameters(parameters)

    def _clip(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        # DeepSpeed clips an unsharded fp32 model too, but keeps the norm to itself.
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._max_grad_norm)
        self._grad_norm = norm.item()

    def _discard_gradients(self) -> None:
        self._engine.zero_grad()
        if self._is_plain:
            return
        optimizer = self._engine.optimizer
        optimizer.zero_grad()
        for buffers in ("averaged_gradients", "all_grad_tensors"):
            for group in getattr(optimizer, buffers, {}):
                getattr(optimizer, buffers)[group] = None
        if hasattr(optimizer, "micro_step_id") and self._zero_stage < 3:
            from deepspeed.runtime.zero.stage_1_and_2 import INITIAL_MICRO_STEP_ID

            optimizer.micro_step_id = INITIAL_MICRO_STEP_ID

    def _deepspeed_config(self, optimization: AdamConfig) -> dict[str, Any]:
        is_bf16 = self._hf_model.dtype == torch.bfloat16
        return {
            "train_micro_batch_size_per_gpu": optimization.micro_batch_size,
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,
            "gradient_clipping": 0.0 if self._is_plain else self._max_grad_norm,
            "zero_optimization": {"stage": optimization.zero_stage},
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": is_bf16},
            "steps_per_print": 2**31,
        }


def init_distributed() -> None:
    """torch.distributed for DeepSpeed: the launcher's ranks, or a lone one without a launcher."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed warns that it guessed so
    if torch.distributed.is_initialized():
        return
    if "RANK" not in os.environ:
        os.environ["LOCAL_RANK"] = "0"  # DeepSpeed asks for it
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group(_backend(), store=store, rank=0, world_size=1)
        return
    torch.distributed.init_process_group(_backend())


def _backend() -> str:
    return "nccl" if torch.cuda.is_available() else "gloo"
