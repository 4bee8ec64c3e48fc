"""Models under training, by DeepSpeed; the policy among them, and the frozen reference."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import distributed, nn

from vineppo.config.schema import AdamConfig, ModelConfig, ReferenceConfig, sums_in_float32
from vineppo.distributed import gather, init_distributed, is_main, num_ranks, rank
from vineppo.models import LoadedModel, can_pack, load_model, named_weights, readable
from vineppo.run_dir import read_json, strict_json
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores, hidden_before_tokens
from vineppo.types import TrainBatch

# A micro-batch's summand of the loss, and numbers to keep that add up over micro-batches.
Summand = tuple[torch.Tensor, dict[str, torch.Tensor]]
# The files of a state: float32 weights with buffers, and what torch's Adam names so.
WEIGHT, MOMENTS, STEP = "weight", ("exp_avg", "exp_avg_sq"), "step"
FILES = (WEIGHT, *MOMENTS, STEP)
LossFunction = Callable[[TrainBatch, TokenScores], Summand]


@dataclass(frozen=True)
class Update:
    """The result of one update: the numbers of each micro-batch, and the norm before clipping."""

    stats: list[dict[str, float]]
    grad_norm: float | None  # None where the update was skipped


class DeepSpeedModule:
    """Forward passes, updates and the optimizer's state of a module under AdamW.

    Gradients accumulate over however many micro-batches an update has; clipping and the optimizer's
    step happen once, at its end (DeepSpeed's `managed_gradient_accumulation: false`). So does the
    reduction over ranks, except under ZeRO 2 and 3, which reduce after every micro-batch.
    `parameter_groups` get a learning rate each. Stage 0 of a bfloat16 model keeps float32 weights
    and sums, whole, and is for one rank.
    """

    def __init__(
        self,
        module: nn.Module,
        parameter_groups: Sequence[Sequence[nn.Parameter]],
        dtype: torch.dtype,
        optimization: AdamConfig,
    ) -> None:
        init_distributed()
        import deepspeed

        # The first look at these would search for compilers; the one operation that is then
        # compiled, ranks' exchange through shared memory, gloo does without.
        deepspeed.ops.__compatible_ops__ = {}
        self._zero_stage, self._max_grad_norm = optimization.zero_stage, optimization.max_grad_norm
        self._is_plain = self._zero_stage == 0 and dtype == torch.float32
        self._adam = adam = torch.optim.AdamW(
            [{"params": list(group)} for group in parameter_groups],
            lr=optimization.learning_rate,
            betas=(optimization.adam_beta1, optimization.adam_beta2),
            eps=optimization.adam_eps,
            weight_decay=optimization.weight_decay,
            fused=True,  # one pass over the states, where the default makes about ten on a CPU
        )
        group_of = {weight: i for i, group in enumerate(parameter_groups) for weight in group}
        self._trained = [(n, w, group_of[w]) for n, w in module.named_parameters() if w in group_of]
        self._grad_norm = nan
        if self._is_plain:
            adam.register_step_pre_hook(self._clip)
        adam.register_step_post_hook(_forget_frozen)
        with redirect_stdout(StringIO()):  # `BF16_Optimizer` prints, here and as it loads
            self._engine, *_ = deepspeed.initialize(
                model=module, optimizer=adam, config=self._config(optimization, dtype)
            )
        if self._zero_stage == 0 and num_ranks() == 1:
            # To reduce over one rank, DeepSpeed would copy all gradients to a buffer and back.
            self._engine.enable_backward_allreduce = False

    @property
    def device(self) -> torch.device:
        return self._engine.device

    def __call__(self, *inputs: Any) -> Any:
        return self._engine(*inputs)

    def update(
        self,
        micro_batches: Sequence[TrainBatch],
        summand: Callable[[TrainBatch], Summand],
        learning_rates: Sequence[float],
        is_accepted: Callable[[list[dict[str, float]]], bool],
    ) -> Update:
        """One optimizer step on Σ summand(micro-batch), over all ranks.

        It is skipped unless `is_accepted` holds of the numbers, which every rank sees whole, and if
        the gradient is not finite. A learning rate of 0 leaves a parameter group as it is.
        """
        numbers_by_batch: list[dict[str, torch.Tensor]] = []
        for batch in micro_batches:
            loss, numbers = summand(batch)
            # DeepSpeed takes the mean over ranks, and the summands are to be summed.
            self._engine.backward(loss * num_ranks(), scale_wrt_gas=False)
            numbers_by_batch.append({name: x.detach() for name, x in numbers.items()})
        stats = [numbers for share in gather(_as_floats(numbers_by_batch)) for numbers in share]
        if not is_accepted(stats):
            self._discard_gradients()
            return Update(stats, None)
        for group, rate in zip(self._engine.optimizer.param_groups, learning_rates, strict=True):
            group["lr"] = rate
        self._engine.step()
        norm = float(self._grad_norm if self._is_plain else self._engine.get_global_grad_norm())
        return Update(stats, norm if isfinite(norm) else None)

    def named_weights(self, part: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        """`named_weights` of a part, gathered from ZeRO-3 shards one at a time on all ranks."""
        import deepspeed

        for name, parameter in named_weights(part):
            with deepspeed.zero.GatheredParameters([parameter], enabled=self._zero_stage == 3):
                yield name, parameter.detach()

    @torch.no_grad()
    def save_state(self, directory: Path) -> None:
        """Weights, buffers and Adam's state, the same files for any ranks; the main one writes."""
        for file in FILES:
            held = self._buffers() if file == WEIGHT else {}
            for name, weight, owner, mine, its in self._shards():
                found = {WEIGHT: owner, **self._adam.state.get(owner, {})}.get(file)
                if not (found is None or file == STEP or self._is_plain):
                    shape, part = getattr(weight, "ds_shape", weight.shape), found[mine]
                    found = torch.zeros(shape, device=self.device)
                    found.view(-1)[its] = part
                    distributed.reduce(found, 0)
                if is_main() and found is not None:  # None: no step yet
                    held[name] = found.to("cpu", copy=True)  # of its own, as the format asks
            if is_main():
                directory.mkdir(parents=True, exist_ok=True)
                save_file(held, directory / f"{file}.safetensors")

    @torch.no_grad()
    def load_state(self, directory: Path) -> None:
        """Each rank reads its shards. Raises `UserError` for files that are absent or cut off."""
        import deepspeed

        if (directory / "state").is_dir():  # of an older version: DeepSpeed's files, one a rank
            with redirect_stdout(StringIO()):
                self._engine.load_checkpoint(directory, tag="state", load_module_strict=False)
            return
        with readable(f"checkpoint {directory}"):
            files = {file: safe_open(directory / f"{file}.safetensors", "pt") for file in FILES}
        for name, buffer in self._buffers().items():
            buffer.copy_(files[WEIGHT].get_tensor(name))
        have_stepped = {*files[STEP].keys()}
        for name, weight, owner, mine, its in self._shards():
            is_split = self._zero_stage == 3
            with deepspeed.zero.GatheredParameters([weight], modifier_rank=0, enabled=is_split):
                weight.copy_(files[WEIGHT].get_tensor(name))
            state = self._adam.state[owner]
            if name not in have_stepped:
                state.clear()
            elif not state:
                state |= {moment: torch.zeros_like(owner) for moment in MOMENTS}
                state[STEP] = torch.zeros((), device=owner.device)
            for file, held in {WEIGHT: owner, **state}.items():
                at, of = (slice(None), slice(None)) if file == STEP else (mine, its)
                held.view(-1)[at] = files[file].get_tensor(name).view(-1)[of]

    def _buffers(self) -> dict[str, torch.Tensor]:
        tensors = self._engine.module.state_dict(keep_vars=True)
        return {name: x for name, x in tensors.items() if not isinstance(x, nn.Parameter)}

    def _shards(self) -> Iterator[tuple[str, Any, torch.Tensor, slice, slice]]:
        """Names, weights, and what Adam steps on this rank instead: whose part `mine` is `its`."""
        optimizer = self._engine.optimizer
        weight: Any
        for name, weight, group in self._trained:
            owner, start, first, size = weight, 0, 0, weight.numel()
            if self._zero_stage == 3:
                part, start, size = optimizer.grad_position[optimizer.get_param_id(weight)]
                owner, first = optimizer.fp32_partitioned_groups_flat[part], rank() * size
                size = max(0, min(size, weight.ds_numel - first))  # without padding
            elif not self._is_plain:
                owner, size = self._adam.param_groups[group]["params"][0], 0
                if (of := weight._hp_mapping) is not None:
                    start, first = of.hp_fragment_address.start, of.lp_fragment_address.start
                    size = of.hp_fragment_address.numel
            yield name, weight, owner, slice(start, start + size), slice(first, first + size)

    def _clip(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        # DeepSpeed clips an unsharded fp32 model too, but keeps the norm to itself.
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._max_grad_norm)
        self._grad_norm = norm.item()
        if not isfinite(self._grad_norm):  # nor does an optimizer of DeepSpeed's step then
            optimizer.zero_grad(set_to_none=True)

    def _discard_gradients(self) -> None:
        """Also those in DeepSpeed's private buffers, which its own `zero_grad` keeps."""
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

    def _config(self, optimization: AdamConfig, dtype: torch.dtype) -> dict[str, Any]:
        # Stage 1 that sums in float32 is DeepSpeed's `BF16_Optimizer`.
        stage = self._zero_stage if self._is_plain else max(self._zero_stage, 1)
        zero: dict[str, Any] = {"stage": stage}
        if optimization.offload == "optimizer":
            zero["offload_optimizer"] = {"device": "cpu"}
        sums = "fp32" if sums_in_float32(self._zero_stage, optimization.offload) else None
        return {
            "train_micro_batch_size_per_gpu": optimization.micro_batch_size,
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,
            "gradient_clipping": 0.0 if self._is_plain else self._max_grad_norm,
            "zero_optimization": zero,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,  # it is compiled at its first use
            "bf16": {"enabled": dtype == torch.bfloat16},
            "data_types": {"grad_accum_dtype": sums},
            "steps_per_print": 2**31,
        }


def _as_floats(numbers_by_batch: Sequence[dict[str, torch.Tensor]]) -> list[dict[str, float]]:
    """All numbers of an update by one copy to the host."""
    numbers = [x.double() for of_batch in numbers_by_batch for x in of_batch.values()]
    floats = iter(torch.stack(numbers).tolist() if numbers else [])
    return [{name: next(floats) for name in numbers} for numbers in numbers_by_batch]


def _forget_frozen(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """A frozen group keeps no moments: steps by 0 would count in Adam's bias correction."""
    for group in optimizer.param_groups:
        if group["lr"] == 0.0:
            for parameter in group["params"]:
                optimizer.state.pop(parameter, None)


class Policy:
    """An HF model, with a value head on its backbone where `value_head` is given.

    If the model has adapters, only these train; whoever asks for its weights, and HF checkpoints,
    get them merged.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        optimization: AdamConfig,
        gradient_checkpointing: bool | Literal["auto"],
        value_head: nn.Module | None = None,
    ) -> None:
        self.tokenizer = loaded.tokenizer
        self.hf_model, self.adapters = loaded.model, loaded.adapters
        checkpoint_activations(self.hf_model, gradient_checkpointing)
        module = TokenLogprobs(
            self.hf_model,
            loaded.engine_model.num_token_ids,
            value_head,
            is_sharded=optimization.zero_stage == 3,
        )
        groups = [[w for w in self.hf_model.parameters() if w.requires_grad]]
        if value_head is not None:
            groups.append(list(value_head.parameters()))
        self.num_groups = len(groups)
        self.packs = can_pack(self.hf_model)
        self.deepspeed = DeepSpeedModule(module, groups, self.hf_model.dtype, optimization)

    @property
    def device(self) -> torch.device:
        return self.deepspeed.device

    def scores(self, batch: TrainBatch, options: ForwardOptions) -> TokenScores:
        return TokenScores(**self.deepspeed(batch, options))

    def update(
        self,
        micro_batches: Sequence[TrainBatch],
        loss: LossFunction,
        options: ForwardOptions,
        learning_rates: Sequence[float],
        is_accepted: Callable[[list[dict[str, float]]], bool],
    ) -> Update:
        """One optimizer step on Σ loss(micro-batch); rates of the model and of the value head."""
        return self.deepspeed.update(
            micro_batches,
            lambda batch: loss(batch, self.scores(batch, options)),
            learning_rates,
            is_accepted,
        )

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names of the HF checkpoint and tensors, one gathered from its ZeRO-3 shards at a time."""
        if self.adapters is not None:
            return self.adapters.merged_weights(self.hf_model)
        return self.deepspeed.named_weights(self.hf_model)

    def save_hf(self, directory: Path) -> None:
        """The policy in HF format with its tokenizer, loadable by transformers and vLLM."""
        save_model(self.hf_model, self.tokenizer, self.named_weights(), directory)


def checkpoint_activations(model: nn.Module, asked: bool | Literal["auto"] = True) -> None:
    """Backward passes recompute activations if `asked`: "auto" asks for it on a GPU."""
    if not (torch.cuda.is_available() if asked == "auto" else asked):
        return
    model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    model.train()  # HF checkpoints in training mode alone; dropout is off


class Reference:
    """The frozen reference policy; `path` null is the starting policy.

    If only adapters train, that is the policy's own model without them, and needs no memory.
    """

    def __init__(self, config: ReferenceConfig, model: ModelConfig, policy: LoadedModel) -> None:
        self._adapters = policy.adapters if config.path is None else None
        if self._adapters is not None:
            self._model = policy.model
        else:
            path = config.path or model.path
            self._model = load_model(path, model.dtype, model.attention).model.eval()
        self._forward = TokenLogprobs(self._model, policy.engine_model.num_token_ids)

    def to(self, device: torch.device) -> None:
        self._forward.to(device)

    @property
    def packs(self) -> bool:
        """True if its passes may be packed."""
        return can_pack(self._model)

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π_ref of every response token at the policy's temperature, [B, T]."""
        with self._bare():
            return self._forward(batch, ForwardOptions(temperature))["logprobs_BT"]

    def _bare(self) -> AbstractContextManager[None]:
        return nullcontext() if self._adapters is None else self._adapters.without(self._model)

    @torch.no_grad()
    def logits(self, batch: TrainBatch) -> Callable[[slice], torch.Tensor]:
        """Gives [N, V] of some rows at a time, to be read through the policy's softmax."""
        with self._bare():
            hidden_NH = hidden_before_tokens(self._model.base_model, batch)
        return torch.no_grad()(lambda rows: self._forward.logits(hidden_NH[rows]))


def save_model(
    model: Any,
    tokenizer: Any,
    weights: Iterable[tuple[str, torch.Tensor]],
    directory: Path,
    left_out: str | None = None,
) -> None:
    """HF format with the tokenizer: `weights` instead of the model's own, which may be shards.

    Every rank takes them one at a time; the main one copies each to the host's memory, and writes.
    `left_out` is a buffer that HF's class does not have.
    """
    tensors = {name: x for name, x in model.state_dict(keep_vars=True).items() if name != left_out}
    held = {name: x for name, x in tensors.items() if not isinstance(x, nn.Parameter)}  # buffers
    # A tied matrix has two names and must stay one tensor: transformers then writes it once.
    first_names = {id(x): name for name, x in reversed(tensors.items())}
    for name, weight in weights:
        first = first_names.get(id(tensors.get(name)), name)
        if is_main():
            held[name] = held[first] if first in held else weight.cpu()
    if is_main():
        model.save_pretrained(directory, state_dict=held)
        tokenizer.save_pretrained(directory)
        add_older_names(directory)


def add_older_names(directory: Path) -> None:
    """Writes what transformers 5 names anew under the names of 4.57 as well.

    4.57 would overlook a rotary base in `rope_parameters` and take its default without a word, and
    refuse the tokenizer.
    """
    config = read_json(directory / "config.json")
    rope = config.get("rope_parameters") or {}
    base = rope.get("full_attention", rope)
    older = {
        "torch_dtype": config.get("dtype"),
        "rope_theta": base.get("rope_theta"),
        "rope_local_base_freq": rope.get("sliding_attention", {}).get("rope_theta"),
        "partial_rotary_factor": base.get("partial_rotary_factor"),
    }
    if base.get("rope_type", "default") != "default":
        older["rope_scaling"] = {key: x for key, x in base.items() if key != "rope_theta"}
    config |= {key: x for key, x in older.items() if x is not None}
    (directory / "config.json").write_bytes(strict_json(config, indent=2))
    names = read_json(directory / "tokenizer_config.json")
    if names.get("tokenizer_class") == "TokenizersBackend":
        names["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(names.get("extra_special_tokens"), list):
        names["additional_special_tokens"] = names.pop("extra_special_tokens")
    (directory / "tokenizer_config.json").write_bytes(strict_json(names, indent=2))
