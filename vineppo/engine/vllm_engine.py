"""vLLM in this process: streaming, exact token ids, weights taken over in place."""

import ctypes
import gc
import os
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
import torch._dynamo
from pydantic import ValidationError
from transformers import AutoConfig

from vineppo.engine import (
    Completion,
    Concurrency,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.engine.vllm_config import VllmConfig
from vineppo.errors import UserError
from vineppo.types import FinishReason

# vLLM reads these at its import.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # it takes no seeds
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # 1024 kernels take much memory

import vllm
from vllm.model_executor.models.transformers import base as transformers_backend
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as GpuLogitsProcessor

STEPS_BETWEEN_TRIMS = 16  # a trim takes 5 ms
_Done = Callable[[Completion], None]


@dataclass(slots=True)
class _Running:
    """A request that vLLM has, and its sample so far."""

    request: SampleRequest
    done: _Done
    token_ids: list[int] = field(default_factory=list)
    logprobs_T: list[float] = field(default_factory=list)
    num_cached: int = 0


def arguments_of(
    config: VllmConfig, model: EngineModel, on_gpu: bool, cache_bytes: int | None
) -> dict[str, Any]:
    """The arguments of `vllm.LLM`. Raises `UserError` for what vLLM cannot serve on a CPU."""
    if not on_gpu and config.block_size % 32:
        raise UserError(
            f"config: engine.block_size must be a multiple of 32 on a CPU, got {config.block_size}"
        )
    text = AutoConfig.from_pretrained(model.path).get_text_config()
    if not on_gpu:
        check_head_size(model.path, text)
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(config.cpu_kv_cache_gib)
        if config.enforce_eager:
            # vLLM would still compile the count of a token's rank, which needs a compiler.
            torch._dynamo.config.disable = True
    # Only if ids are padding: a processor has its price in every step.
    has_padding = text.vocab_size > model.num_token_ids
    # A graph for every batch that decodes: vLLM would stop at 512 sequences.
    graphs = {"max_cudagraph_capture_size": config.max_num_seqs}
    return dict[str, Any](
        model=model.path,
        skip_tokenizer_init=True,
        dtype=config.dtype,
        block_size=config.block_size,
        max_model_len=config.max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        gpu_memory_utilization=config.gpu_memory_utilization,
        kv_cache_memory_bytes=cache_bytes,
        enforce_eager=config.enforce_eager,
        enable_prefix_caching=True,
        # After a prompt cut in two vLLM rewinds the request's generator; a CPU's cannot.
        enable_chunked_prefill=on_gpu,
        enable_sleep_mode=config.sleep_while_training and on_gpu,
        logprobs_mode="processed_logprobs",
        logits_processors=[padding_mask(model.num_token_ids)] if has_padding else None,
        compilation_config=graphs if on_gpu and not config.enforce_eager else None,
        # "auto" would apply a model's generation_config.json (a repetition penalty, say).
        generation_config="vllm",
        **config.options(on_gpu),
        disable_log_stats=True,
        use_tqdm_on_load=False,
        seed=0,
    )


def start(path: str, arguments: dict[str, Any]) -> vllm.LLM:
    # A dropped engine takes vLLM's process groups down when it is collected: before this one
    # makes its own. An engine's start freezes what there is.
    gc.unfreeze()
    gc.collect()
    leave_trainers_classes_alone()
    try:
        return vllm.LLM(**arguments)
    except (ValueError, NotImplementedError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UserError(
            f"vLLM cannot serve model {path}: {' '.join(said.split())[:300]}"
        ) from error


class VllmEngine:
    """`Engine` on vLLM's V1 core, in this process so that weights never leave memory.

    The core gets requests and gives tokens, as for vLLM's own front ends, without their work on
    text. Every request is one sample with its own seed; torch's CPU generator takes the low 32
    bits. Samples of one prefix share its KV blocks through the prefix cache, up to the last full
    block of `block_size` tokens.
    """

    def __init__(
        self, config: VllmConfig, model: EngineModel, cache_bytes: int | None = None
    ) -> None:
        """On a GPU, `cache_bytes` replaces the cache that the share of memory leaves."""
        self._on_gpu = torch.cuda.is_available()
        self.ranks_a_replica = config.ranks_a_replica
        self._can_sleep = config.sleep_while_training and self._on_gpu
        num_threads = torch.get_num_threads()
        self._llm = start(model.path, arguments_of(config, model, self._on_gpu, cache_bytes))
        if self._on_gpu:
            # vLLM's worker leaves one thread, too few for an offloaded optimizer.
            torch.set_num_threads(num_threads)
        (served,) = self._llm.collective_rpc("get_model")
        # Gemma's has no output matrix but the embedding.
        self._has_head = any(
            "lm_head" in name for name, _ in served.named_modules(remove_duplicate=False)
        )
        self._core = self._llm.llm_engine.engine_core
        skip_needless_allocations(self._core.engine_core.scheduler.kv_cache_manager)
        self._checked: dict[tuple[object, ...], EngineCoreRequest] = {}
        self._stop_ids = list(model.stop_ids)
        self._is_asleep = False
        self._max_model_len = config.max_model_len
        self._concurrency = Concurrency(config.max_num_seqs, config.max_model_len)
        self._waiting: deque[tuple[SampleRequest, _Done]] = deque()
        self._running: dict[str, _Running] = {}  # by vLLM's request id
        self._num_submitted = 0
        self._num_steps = 0
        self.counts = EngineCounts(0, 0, 0)

    @property
    def cache_bytes(self) -> int | None:
        """The size of a GPU's cache of keys and values; None on a CPU."""
        worker = self._core.engine_core.model_executor.driver_worker.worker
        return cast(int | None, getattr(worker, "available_kv_cache_memory_bytes", None))

    def submit(self, request: SampleRequest, done: _Done) -> None:
        check_request(request, self._max_model_len)  # vLLM's core does not validate requests
        self._waiting.append((request, done))

    def step(self) -> None:
        # vLLM's own requests are heavy: it gets those of its next batches, in an order that no
        # clock decides, so that memory does not grow with the number of continuations.
        for _ in range(self._concurrency.admits(len(self._running), self._on_gpu)):
            if self._waiting:
                self._start(*self._waiting.popleft())
        try:
            finished = self._advance()
            self._concurrency.notice(len(finished))
        except Exception as error:
            if self.ranks_a_replica > 1:  # the replica's other ranks have not failed
                raise
            self._start_over(error)
            return
        for request_id, finish_reason in finished:
            running, counts = self._running.pop(request_id), self.counts
            self.counts = replace(
                counts,
                prompt_tokens=counts.prompt_tokens + len(running.request.prefix_ids),
                cached_tokens=counts.cached_tokens + running.num_cached,
                sampled_tokens=counts.sampled_tokens + len(running.token_ids),
            )
            ids, logprobs_T = tuple(running.token_ids), tuple(running.logprobs_T)
            running.done(Completion(ids, logprobs_T, finish_reason))
        self._num_steps += 1
        if self._num_steps % STEPS_BETWEEN_TRIMS == 0 and not self._on_gpu:
            return_freed_memory()

    def _advance(self) -> list[tuple[str, FinishReason]]:
        """A step of vLLM's core; returns the requests that have finished."""
        finished: list[tuple[str, FinishReason]] = []
        for output in self._core.get_output().outputs:
            running = self._running[output.request_id]
            running.token_ids += output.new_token_ids
            if output.new_logprobs is not None:
                running.logprobs_T += output.new_logprobs.logprobs[:, 0].tolist()
            if output.prefill_stats is not None:
                running.num_cached = output.prefill_stats.num_cached_tokens
            if output.finish_reason is not None:
                reason = str(output.finish_reason)
                if reason not in ("stop", "length"):
                    raise RuntimeError(f"vLLM ended a request with {reason!r}")
                finished.append((output.request_id, cast(FinishReason, reason)))
        return finished

    def _start(self, request: SampleRequest, done: _Done) -> None:
        self._num_submitted += 1
        started = copy(self._like(request))
        started.request_id = str(self._num_submitted)
        started.prompt_token_ids = list(request.prefix_ids)
        started.sampling_params = copy(started.sampling_params)
        started.sampling_params.seed = request.seed
        started.sampling_params.max_tokens = request.max_tokens
        self._core.add_request(started)
        self._running[started.request_id] = _Running(request, done)

    def _like(self, request: SampleRequest) -> EngineCoreRequest:
        """A request that vLLM has checked; only its prefix, seed and budget may differ."""
        cuts = {"top_p": request.top_p, "top_k": request.top_k or 0, "min_p": request.min_p}
        key = request.temperature, *cuts.values(), request.stop_ids, request.with_logprobs
        if key not in self._checked:
            params = vllm.SamplingParams(
                temperature=request.temperature,
                **cuts,
                max_tokens=request.max_tokens,
                seed=request.seed,
                stop_token_ids=[*self._stop_ids, *request.stop_ids],
                logprobs=0 if request.with_logprobs else None,  # 0: of the sampled token alone
                detokenize=False,
            )
            engine = self._llm.llm_engine
            self._checked[key] = engine.input_processor.process_inputs(
                "", vllm.inputs.tokens_input(list(request.prefix_ids)), params,
                engine.get_supported_tasks(),
            )  # fmt: skip
        return self._checked[key]

    def _start_over(self, error: Exception) -> None:
        """Running requests wait again, in their order; a cached prefix may be half computed."""
        self._concurrency.lower(error, len(self._running))
        started = [(running.request, running.done) for running in self._running.values()]
        self._waiting.extendleft(reversed(started))
        self._abort()
        self._forget_prefixes()
        self.counts = replace(self.counts, num_retries=self.counts.num_retries + 1)

    def _abort(self) -> None:
        self._core.abort_requests(list(self._running))
        core = self._core.engine_core
        if core.batch_queue is not None:
            core.batch_queue.clear()  # batches of aborted requests
        self._running.clear()

    @property
    def num_unfinished(self) -> int:
        return len(self._waiting) + len(self._running)

    def load_weights(self, named_weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        assert not self.num_unfinished, "weights must not change while requests run"
        weights = (
            (name, weight.detach())
            for name, weight in named_weights
            if self._has_head or not name.startswith("lm_head.")
        )
        self._llm.collective_rpc(
            "reload_weights", kwargs={"weights_iterator": weights, "is_checkpoint_format": True}
        )
        if self._on_gpu:
            torch.cuda.synchronize()  # so that the time of the copies counts here
        self.clear_cache()

    def clear_cache(self) -> None:
        self._forget_prefixes()
        self._concurrency.restore()

    def _forget_prefixes(self) -> None:
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("the prefix cache is in use")

    def sleep(self) -> None:
        self._waiting.clear()
        if self._running:
            self._abort()
        if self._can_sleep and not self._is_asleep:
            # Level 2 would save the host's copy of the weights. But tensors that a model makes of
            # its weights or config come back as garbage (vllm issue 29341), and so do the weights
            # if an iteration brings no new ones.
            self._llm.sleep(level=1)
            self._is_asleep = True

    def wake(self) -> None:
        if self._is_asleep:
            torch.cuda.empty_cache()  # vLLM cannot use memory that torch has freed and keeps
            self._llm.wake_up()
            self._is_asleep = False


def check_head_size(path: str, text: Any) -> None:
    """Raises `UserError` for attention heads that vLLM has no code for on a CPU."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    if not CPUAttentionBackend.supports_head_size(size):
        sizes = ", ".join(map(str, CPUAttentionBackend.get_supported_head_sizes()))
        raise UserError(
            f"model {path}: attention heads must have a size of {sizes} for vLLM on a CPU, got "
            f"{size}; engine.kind 'transformers' takes any"
        )


def leave_trainers_classes_alone() -> None:
    """A patch of vLLM: it serves some models, SmolLM3 for one, by the classes of transformers.

    It would make them compile in place, and so break the trainer's models in this process.
    """
    transformers_backend.Base._decorate_for_torch_compile = lambda _: None


def skip_needless_allocations(manager: Any) -> None:
    """A patch of vLLM: its scheduler skips `allocate_slots` if a request needs no block.

    The scheduler calls it for every request in every step, which is a third of its time. If the
    next token has a place and fills no block, the call changes nothing. `manager` is a
    `KVCacheManager`; its method is replaced, as vLLM has no option for this.
    """
    groups = manager.coordinator.single_type_managers
    if len(groups) != 1 or type(groups[0]) is not FullAttentionManager:
        return
    (group,) = groups
    allocate_slots, size = manager.allocate_slots, group.block_size

    def allocate(request: Any, num_new_tokens: int, **more: Any) -> Any:
        if num_new_tokens == 1 and more == {"num_lookahead_tokens": 0}:  # it runs
            name, end = request.request_id, request.num_computed_tokens + 1
            has_place = end <= len(group.req_to_blocks[name]) * size
            if has_place and end // size <= group.num_cached_block.get(name, 0):
                return manager.empty_kv_cache_blocks
        return allocate_slots(request, num_new_tokens, **more)

    manager.allocate_slots = allocate


def padding_mask(num_token_ids: int) -> type[LogitsProcessor]:
    """A logits processor that sets the logits of ids ≥ `num_token_ids` to −∞, for the whole batch.

    vLLM's CPU runner takes `LogitsProcessor` alone, the GPU's `GpuLogitsProcessor` alone. A list of
    allowed ids in every request would take 20 ms a request for 150,000 ids.
    """

    class PaddingMask(LogitsProcessor, GpuLogitsProcessor):
        def __init__(self, *_: Any) -> None:
            pass

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: Any) -> None:
            pass

        def apply(self, logits: torch.Tensor, *_: Any) -> torch.Tensor:
            logits[:, num_token_ids:] = -torch.inf
            return logits

    return PaddingMask


def return_freed_memory() -> None:
    """Gives freed pages of the C heap back to the system. Does nothing without glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
