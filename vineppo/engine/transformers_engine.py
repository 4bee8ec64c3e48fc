"""Sampling with a transformers model in this process: no vLLM, and a check of what vLLM samples."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from vineppo.config.schema import TransformersConfig
from vineppo.distributed import local_rank
from vineppo.engine.concurrency import Concurrency
from vineppo.engine.interface import (
    Completion,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.engine.slot_cache import SlotCache
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.no_cache import has_attention_alone
from vineppo.seeds import derive_seed
from vineppo.types import FinishReason


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides the token at `position` of the response of `seed`.

    Multiples of 2⁻⁵², so that u · total stays below total when it is rounded.
    """
    return (derive_seed(seed, position) >> 11) * 2.0**-52


def sample_tokens(
    logits_BV: torch.Tensor,
    temperatures_B: Sequence[float],
    top_ps_B: Sequence[float],
    uniforms_B: Sequence[float],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities after temperature and top_p (nats), each [B].

    The token is the first id whose cumulative probability exceeds u: a pure function of its row and
    of u, whatever else is in the batch. Temperature 0 takes the likeliest id, whose log-probability
    is that at temperature 1 without top_p, as vLLM gives it. Probabilities (0.5, 0.3, 0.2) with
    top_p 0.7 keep two ids at (0.625, 0.375), so that u = 0.63 gives id 1 and ln 0.375.
    """
    is_greedy_B = torch.tensor([t == 0 for t in temperatures_B], device=logits_BV.device)
    scales_B = [t or 1.0 for t in temperatures_B]
    masses_B = [p if t else 1.0 for t, p in zip(temperatures_B, top_ps_B, strict=True)]
    logprobs_BV = processed_logprobs(logits_BV, scales_B, masses_B)
    # Sums of 150,000 probabilities in float32 would move the bounds between ids by 1e-5.
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    uniforms_B1 = torch.tensor(uniforms_B, dtype=torch.float64, device=logits_BV.device)[:, None]
    drawn_B1 = torch.searchsorted(cumulative_BV, uniforms_B1 * cumulative_BV[:, -1:], right=True)
    # Of logits that are NaN or +∞ every sum is NaN: the last id, whose log-probability says so.
    drawn_B = drawn_B1.squeeze(-1).clamp(max=logits_BV.shape[1] - 1)
    tokens_B = torch.where(is_greedy_B, logits_BV.argmax(-1), drawn_B)
    return tokens_B, logprobs_BV.gather(-1, tokens_B[:, None]).squeeze(-1)


def processed_logprobs(
    logits_BV: torch.Tensor, temperatures_B: Sequence[float], top_ps_B: Sequence[float]
) -> torch.Tensor:
    """log π of the tempered policy renormalised over its nucleus, −∞ outside, float32 [B, V].

    The nucleus is the smallest set of likeliest ids with a mass of at least top_p.
    """
    temperatures_B1 = torch.tensor(temperatures_B, device=logits_BV.device)[:, None]
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B1, -1)
    cut = [b for b, top_p in enumerate(top_ps_B) if top_p < 1]
    if cut:
        masses_C1 = torch.tensor([top_ps_B[b] for b in cut], device=logits_BV.device)[:, None]
        logprobs_BV[cut] = _nucleus(logprobs_BV[cut], masses_C1)
    return logprobs_BV


def _nucleus(logprobs_CV: torch.Tensor, masses_C1: torch.Tensor) -> torch.Tensor:
    sorted_CV, order_CV = logprobs_CV.sort(dim=-1, descending=True, stable=True)
    probs_CV = sorted_CV.double().exp()
    likelier_CV = probs_CV.cumsum(-1) - probs_CV  # the mass of the ids before it; 0 for the first
    is_kept_CV = torch.zeros_like(logprobs_CV, dtype=torch.bool)
    is_kept_CV.scatter_(-1, order_CV, likelier_CV < masses_C1)
    kept_CV = logprobs_CV.masked_fill(~is_kept_CV, -torch.inf)
    return kept_CV - kept_CV.logsumexp(-1, keepdim=True)


def load_sampled_model(path: str, dtype: str, max_model_len: int) -> Any:
    """The causal LM at `path` on this rank's device.

    Raises `UserError` where its layers hold more, or see less, than all keys and values so far.
    """
    model = load_model(path, dtype, "sdpa").model.eval()
    if not has_attention_alone(model):
        raise UserError(
            f"model {path}: for engine.kind 'transformers' every layer must attend to all tokens, "
            f"got {model.config.model_type}"
        )
    window = getattr(model.config.get_text_config(), "sliding_window", None)
    if window is not None and window < max_model_len:
        raise UserError(
            "config: engine.max_model_len must be at most the model's attention window for "
            f"engine.kind 'transformers', {window}, got {max_model_len}"
        )
    on_gpu = torch.cuda.is_available()
    return model.to(torch.device("cuda", local_rank()) if on_gpu else torch.device("cpu"))


@dataclass
class _Row:
    """A request on its way: `room` tokens may be sampled."""

    request: SampleRequest
    done: Callable[[Completion], None]
    room: int
    token_ids: list[int] = field(default_factory=list)
    logprobs_T: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    finish_reason: FinishReason | None = None

    @property
    def length(self) -> int:
        return len(self.request.prefix_ids) + len(self.token_ids)

    def append(self, token_id: int, logprob: float, stop_ids: frozenset[int]) -> None:
        self.token_ids.append(token_id)
        self.logprobs_T.append(logprob)
        if token_id in stop_ids or token_id in self.request.stop_ids:
            self.finish_reason = "stop"
        elif len(self.token_ids) == self.room:
            self.finish_reason = "length"

    def so_far(self) -> Completion:
        logprobs_T = tuple(self.logprobs_T) if self.request.with_logprobs else ()
        return Completion(tuple(self.token_ids), logprobs_T, self.finish_reason or "length")


class TransformersEngine:
    """`Engine` on the forward pass of a transformers model with a copy of the weights of its own.

    A step feeds every running row its last token and samples the next. Finished rows leave, waiting
    ones join: all but the last token of their prefix is taken over from a slot that holds it, or
    computed beforehand, once for requests of one prefix. transformers' own continuous batching has
    one random stream and one temperature for all requests.
    """

    def __init__(self, config: TransformersConfig, model: EngineModel) -> None:
        self._config = config
        self._model = load_sampled_model(model.path, config.dtype, config.max_model_len)
        self._num_token_ids = model.num_token_ids
        self._stop_ids = frozenset(model.stop_ids)
        self._cache = SlotCache(config.max_num_seqs, config.max_model_len, self._model.device)
        self._concurrency = Concurrency(config.max_num_seqs, config.max_model_len)
        self._waiting: deque[_Row] = deque()
        self._running: list[_Row] = []  # row i is in slot i
        self.ranks_a_replica = 1
        self.counts = EngineCounts(0, 0, 0)

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        limit = self._config.max_model_len
        check_request(request, limit)
        most = min(request.max_tokens, limit - len(request.prefix_ids))
        self._waiting.append(_Row(request, done, most))

    def step(self) -> None:
        try:
            with torch.no_grad():
                self._admit()
                self._sample()
            finished = self._leave()
        except Exception as error:
            self._start_over(error)
            return
        for row in finished:
            self.counts = replace(
                self.counts,
                prompt_tokens=self.counts.prompt_tokens + len(row.request.prefix_ids),
                cached_tokens=self.counts.cached_tokens + row.cached_tokens,
                sampled_tokens=self.counts.sampled_tokens + len(row.token_ids),
            )
            row.done(row.so_far())

    def look(self) -> None:
        if self._waiting or len(self._running) >= self._concurrency.limit:
            return
        for row in list(self._running):
            if row.request.seen is not None:
                row.request.seen(row.so_far())

    def _start_over(self, error: Exception) -> None:
        """Running rows wait again, in their order and with nothing sampled; no slot is believed."""
        self._concurrency.lower(error, len(self._running))
        self._waiting.extendleft(
            _Row(row.request, row.done, row.room) for row in reversed(self._running)
        )
        self._running.clear()
        self._cache.release()
        self.counts = replace(self.counts, num_retries=self.counts.num_retries + 1)

    @property
    def num_unfinished(self) -> int:
        return len(self._waiting) + len(self._running)

    def load_weights(self, named_weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        assert not self.num_unfinished, "weights must not change while requests run"
        parameters = dict(self._model.named_parameters(remove_duplicate=False))
        with torch.no_grad():
            for name, weight in named_weights:
                parameters.pop(name).copy_(weight)
        assert not parameters, f"no weights for {', '.join(parameters)}"
        self.clear_cache()

    def clear_cache(self) -> None:
        if self._running:
            raise RuntimeError("the prefix cache is in use")
        self._cache.forget()
        self._concurrency.restore()

    def sleep(self) -> None:
        """Gives up the keys and values; the weights stay."""
        self._waiting.clear()
        self._running.clear()
        self._cache.release()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def wake(self) -> None:
        """Nothing: the next step takes memory again."""

    def _admit(self) -> None:
        """Waiting rows take the free slots, with all but the last token of their prefix in them."""
        slots_by_prefix: dict[tuple[int, ...], list[int]] = {}
        while self._waiting and len(self._running) < self._concurrency.limit:
            row = self._waiting.popleft()
            slots_by_prefix.setdefault(row.request.prefix_ids, []).append(len(self._running))
            self._running.append(row)
        held, missing, shared = [], [], []
        for prefix_ids, (first, *others) in slots_by_prefix.items():
            source, length = self._cache.longest_held(prefix_ids[:-1])
            held.append((source, first, length))
            missing.append((first, prefix_ids[length:-1], length))
            shared += [(first, other, len(prefix_ids) - 1) for other in others]
        self._cache.copy(held)
        self._prefill(missing)
        self._cache.copy(shared)
        for _, slot, length in (*held, *shared):
            self._running[slot].cached_tokens = length

    def _prefill(self, parts: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
        """Keys and values of (slot, token ids, where they start), without logits."""
        pending = sorted((part for part in parts if part[1]), key=lambda part: len(part[1]))
        while pending:
            # As many as have at most so many tokens with their padding; one always fits.
            padded = [count * len(ids) for count, (_, ids, _) in enumerate(pending, start=1)]
            end = max(1, bisect_right(padded, self._config.max_num_batched_tokens))
            slots, token_ids, starts = zip(*pending[:end], strict=True)
            self._model.base_model(**self._cache.enter(slots, token_ids, starts))
            del pending[:end]

    def _sample(self) -> None:
        """Every running row gets a token."""
        rows = self._running
        if not rows:
            return
        inputs = self._cache.enter(
            list(range(len(rows))),
            [[(row.token_ids or row.request.prefix_ids)[-1]] for row in rows],
            [row.length - 1 for row in rows],
        )
        logits_BV = self._model(**inputs).logits[:, -1, : self._num_token_ids]
        tokens_B, logprobs_B = sample_tokens(
            logits_BV,
            [row.request.temperature for row in rows],
            [row.request.top_p for row in rows],
            [uniform(row.request.seed, len(row.token_ids)) for row in rows],
        )
        for row, token, logprob in zip(rows, tokens_B.tolist(), logprobs_B.tolist(), strict=True):
            row.append(token, logprob, self._stop_ids)

    def _leave(self) -> list[_Row]:
        """Takes out the finished rows; the last of the others move into their slots."""
        rows = self._running
        finished = [row for row in rows if row.finish_reason is not None]
        num_left = len(rows) - len(finished)
        free = [i for i in range(num_left) if rows[i].finish_reason is not None]
        movers = [i for i in range(num_left, len(rows)) if rows[i].finish_reason is None]
        moves = list(zip(free, movers, strict=True))
        self._cache.exchange(moves)
        for slot, mover in moves:
            rows[slot] = rows[mover]
        del rows[num_left:]
        return finished
