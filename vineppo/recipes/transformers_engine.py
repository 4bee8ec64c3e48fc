"""Sampling with a transformers model in this process: no vLLM, and a check of what vLLM samples.

From top to bottom: the config, the engine, and how one uniform number makes one token.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import DynamicCache

from vineppo.distributed import local_rank
from vineppo.engine import (
    Completion,
    Concurrency,
    Engine,
    EngineConfig,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.token_scores import chunk_rows
from vineppo.types import FinishReason

ATTENTION = {"full_attention", "sliding_attention"}  # kinds of layers
MOST_LIKELY = 512  # ids that are sorted, if they have the nucleus of every row of a chunk
_Done = Callable[[Completion], None]


@dataclass(frozen=True)
class TransformersConfig(EngineConfig):
    """`max_num_seqs` sequences run at once, each with memory for at most `max_model_len` tokens;
    `max_num_batched_tokens` bounds a pass over prefixes, padding included."""

    def build(self, model: EngineModel) -> Engine:
        return TransformersEngine(self, model)


@dataclass
class _Row:
    """A running request; `uniforms` has a number for every token that may be sampled."""

    request: SampleRequest
    done: _Done
    end_ids: frozenset[int]
    uniforms: np.ndarray
    cached_tokens: int
    token_ids: list[int] = field(default_factory=list)
    logprobs_T: list[float] = field(default_factory=list)

    @property
    def finish_reason(self) -> FinishReason | None:
        if self.token_ids and self.token_ids[-1] in self.end_ids:
            return "stop"
        return "length" if len(self.token_ids) == len(self.uniforms) else None


class TransformersEngine:
    """`Engine` on the forward pass of a transformers model with a separate copy of the weights.

    A step is one pass that feeds every running row its last token and samples the next. Finished
    rows leave, waiting ones join; rows that join together behind one prefix have it computed once.
    The cache is right-aligned: a row's keys and values fill the last columns.
    transformers' own continuous batching has one random stream and one temperature for all.
    """

    def __init__(self, config: TransformersConfig, model: EngineModel) -> None:
        self._config = config
        on_gpu = torch.cuda.is_available()
        self._device = torch.device("cuda", local_rank()) if on_gpu else torch.device("cpu")
        self._model: Any = load_model(model.path, config.dtype, "sdpa").model.eval()
        self._model.to(self._device)
        self._check_layers(model.path)
        self._num_token_ids, self._stop_ids = model.num_token_ids, model.stop_ids
        self._concurrency = Concurrency(config.max_num_seqs, config.max_model_len)
        self._waiting: deque[tuple[SampleRequest, _Done]] = deque()
        self._running: list[_Row] = []  # row i is row i of the cache
        self._cache: DynamicCache | None = None
        self._is_held_BT = torch.zeros(0, 0, dtype=torch.bool)  # the cache's columns of each row
        self.ranks_a_replica = 1
        self.counts = EngineCounts(0, 0, 0)

    def _check_layers(self, path: str) -> None:
        """Raises `UserError` unless every layer attends to all tokens of a sequence."""
        text = self._model.config.get_text_config()
        window = getattr(text, "sliding_window", None)
        if window is not None and window < self._config.max_model_len:
            raise UserError(
                "config: engine.max_model_len must be at most the model's attention window for "
                f"engine.kind 'transformers', {window}, got {self._config.max_model_len}"
            )
        kinds = set(getattr(text, "layer_types", None) or ())
        if not kinds <= ATTENTION or self._model._is_stateful:
            raise UserError(
                f"model {path}: for engine.kind 'transformers' every layer must attend to all "
                f"tokens, got {self._model.config.model_type}"
            )

    def submit(self, request: SampleRequest, done: _Done) -> None:
        check_request(request, self._config.max_model_len)
        self._waiting.append((request, done))

    def step(self) -> None:
        try:
            with torch.no_grad():
                self._admit()
                if self._running:
                    self._sample()
                finished = self._leave()
        except Exception as error:
            self._start_over(error)
            return
        for row, finish_reason in finished:
            self.counts = replace(
                self.counts,
                prompt_tokens=self.counts.prompt_tokens + len(row.request.prefix_ids),
                cached_tokens=self.counts.cached_tokens + row.cached_tokens,
                sampled_tokens=self.counts.sampled_tokens + len(row.token_ids),
            )
            logprobs_T = tuple(row.logprobs_T) if row.request.with_logprobs else ()
            row.done(Completion(tuple(row.token_ids), logprobs_T, finish_reason))

    def _start_over(self, error: Exception) -> None:
        """Running rows wait again, in their order and with nothing sampled."""
        self._concurrency.lower(error, len(self._running))
        self._waiting.extendleft((row.request, row.done) for row in reversed(self._running))
        self._drop()
        self.counts = replace(self.counts, num_retries=self.counts.num_retries + 1)

    def _drop(self) -> None:
        self._running.clear()
        self._cache = None

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
        """Keys and values go with their rows, so that none are left."""
        if self._running:
            raise RuntimeError("the prefix cache is in use")
        self._concurrency.restore()

    def sleep(self) -> None:
        """Gives up the keys and values; the weights stay."""
        self._waiting.clear()
        self._drop()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def wake(self) -> None:
        """Nothing: the next step takes memory again."""

    def _admit(self) -> None:
        """Waiting rows take the free places; the shortest prefixes are computed first."""
        num_free = self._concurrency.admits(len(self._running), in_waves=True)
        new: dict[tuple[int, ...], list[_Row]] = {}
        for _ in range(min(num_free, len(self._waiting))):
            request, done = self._waiting.popleft()
            ids = request.prefix_ids
            room = min(request.max_tokens, self._config.max_model_len - len(ids))
            end_ids = frozenset((*self._stop_ids, *request.stop_ids))
            cached_tokens = len(ids) - 1 if ids in new else 0
            row = _Row(request, done, end_ids, uniforms(request.seed, room), cached_tokens)
            new.setdefault(ids, []).append(row)
        pending = sorted(new, key=len)
        self._running += [row for ids in pending for row in new[ids]]
        while pending:
            # As many as the limit of tokens allows with their padding; one always fits.
            padded = [count * len(ids) for count, ids in enumerate(pending, start=1)]
            end = max(1, bisect_right(padded, self._config.max_num_batched_tokens))
            self._prefill(pending[:end], [len(new[ids]) for ids in pending[:end]])
            del pending[:end]

    def _prefill(self, prefixes: Sequence[tuple[int, ...]], counts: Sequence[int]) -> None:
        """Adds `counts` rows with the keys and values of each prefix except its last token."""
        width = max(1, len(prefixes[-1]) - 1)
        ids_GT = torch.zeros(len(prefixes), width, dtype=torch.long)
        is_held_GT = torch.zeros(len(prefixes), width, dtype=torch.bool)
        for g, ids in enumerate(prefixes):
            if len(ids) > 1:
                ids_GT[g, 1 - len(ids) :] = torch.tensor(ids[:-1])
                is_held_GT[g, 1 - len(ids) :] = True
        # Padding attends to itself: attention to nothing would be NaN.
        alone_TT = torch.eye(width, dtype=torch.bool)
        is_seen_GTT = torch.ones(width, width, dtype=torch.bool).tril() & is_held_GT[:, None]
        positions_GT = (is_held_GT.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache()
        self._model.base_model(
            input_ids=ids_GT.to(self._device),
            attention_mask=(is_seen_GTT | alone_TT)[:, None].to(self._device),
            position_ids=positions_GT.to(self._device),
            past_key_values=cache,
            use_cache=True,
        )
        row_B = torch.arange(len(prefixes)).repeat_interleave(torch.tensor(counts))
        cache.batch_select_indices(row_B.to(self._device))
        is_held_BT = is_held_GT[row_B].to(self._device)
        if self._cache is None:
            self._cache, self._is_held_BT = cache, is_held_BT
            return
        held = self._cache.layers
        for layer, new in zip(held, cache.layers, strict=True):
            layer.keys = _stacked(layer.keys, new.keys)
            layer.values = _stacked(layer.values, new.values)
        columns = _stacked(self._is_held_BT[:, None, :, None], is_held_BT[:, None, :, None])
        self._is_held_BT = columns[:, 0, :, 0]

    def _sample(self) -> None:
        """Every running row gets its next token."""
        requests = [row.request for row in self._running]
        lasts = [[*row.request.prefix_ids[-1:], *row.token_ids][-1] for row in self._running]
        nexts = [len(row.request.prefix_ids) + len(row.token_ids) - 1 for row in self._running]
        numbers = [row.uniforms[len(row.token_ids)] for row in self._running]
        # vLLM gives a greedy token's log-probability at temperature 1, without top_p.
        greedy = [request.temperature == 0 for request in requests]
        temperatures = [request.temperature or 1.0 for request in requests]
        top_ps = [request.top_p if request.temperature else 1.0 for request in requests]
        min_ps = [request.min_p if request.temperature else 0.0 for request in requests]
        top_ks = [
            (request.temperature and request.top_k) or self._num_token_ids for request in requests
        ]

        def put(numbers: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(numbers, dtype=dtype).to(self._device)

        self._is_held_BT = pad(self._is_held_BT, (0, 1), value=True)
        logits_BQV = self._model(
            input_ids=put(lasts, torch.long)[:, None],
            attention_mask=self._is_held_BT[:, None, None],
            position_ids=put(nexts, torch.long)[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).logits
        logits_BV = logits_BQV[:, -1, : self._num_token_ids]
        temperatures_B = put(temperatures, torch.float32)
        if max(min_ps) > 0 or min(top_ks) < self._num_token_ids:
            min_ps_B, top_ks_B = put(min_ps, torch.float32), put(top_ks, torch.long)
            logits_BV = cut(logits_BV.float(), temperatures_B, min_ps_B, top_ks_B)
        tokens_B, logprobs_B = sample_tokens(
            logits_BV,
            temperatures_B,
            put(top_ps, torch.float32) if min(top_ps) < 1 else None,
            put(greedy, torch.bool) if any(greedy) else None,
            put(numbers, torch.float64),
        )
        found = zip(self._running, tokens_B.tolist(), logprobs_B.tolist(), strict=True)
        for row, token, logprob in found:
            row.token_ids.append(token)
            row.logprobs_T.append(logprob)

    def _leave(self) -> list[tuple[_Row, FinishReason]]:
        """Takes the finished rows out, and columns that no row is left in."""
        reasons = [row.finish_reason for row in self._running]
        left = [i for i, reason in enumerate(reasons) if reason is None]
        pairs = zip(self._running, reasons, strict=True)
        finished = [(row, reason) for row, reason in pairs if reason is not None]
        self._running = [self._running[i] for i in left]
        if not left:
            self._cache = None
        elif finished:
            assert self._cache is not None
            index_B = torch.tensor(left, device=self._device)
            self._is_held_BT = self._is_held_BT[index_B]
            first = int(self._is_held_BT.any(0).int().argmax())
            self._is_held_BT = self._is_held_BT[:, first:]
            for layer in self._cache.layers:
                layer.keys = layer.keys[index_B, :, first:]
                layer.values = layer.values[index_B, :, first:]
        return finished


def _stacked(above_BhTd: torch.Tensor, below_BhTd: torch.Tensor) -> torch.Tensor:
    """Rows above rows, both padded on the left to the longer T."""
    width = max(above_BhTd.shape[2], below_BhTd.shape[2])
    return torch.cat([pad(x, (0, 0, width - x.shape[2], 0)) for x in (above_BhTd, below_BhTd)])


def uniforms(seed: int, count: int) -> np.ndarray:
    """The numbers in [0, 1) that decide the first `count` tokens of the response of `seed`.

    Multiples of 2⁻⁵², so that u · total stays below total when it is rounded.
    """
    stream = np.random.Generator(np.random.Philox(key=seed))
    return stream.integers(1 << 52, size=count) * 2.0**-52


def cut(
    logits_BV: torch.Tensor,
    temperatures_B: torch.Tensor,
    min_ps_B: torch.Tensor,
    top_ks_B: torch.Tensor,
) -> torch.Tensor:
    """The logits with −∞ for what `min_p` and `top_k` cut; equal ones at an edge stay together.

    Probabilities (0.5, 0.3, 0.2) with min_p 0.5 or top_k 2 keep the first two.
    """
    falling_BK = logits_BV.topk(min(int(top_ks_B.max()), logits_BV.shape[1])).values
    last_B1 = falling_BK.gather(1, top_ks_B[:, None].clamp(max=falling_BK.shape[1]) - 1)
    least_B1 = falling_BK[:, :1] + (temperatures_B * min_ps_B.log())[:, None]
    return logits_BV.masked_fill(logits_BV < torch.maximum(last_B1, least_B1), -torch.inf)


def sample_tokens(
    logits_BV: torch.Tensor,
    temperatures_B: torch.Tensor,
    top_ps_B: torch.Tensor | None,
    is_greedy_B: torch.Tensor | None,
    uniforms_B: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities after temperature and top_p (nats), each [B].

    The token is the first id with a cumulative probability above u. Up to rounding it is a function
    of its row and of u, whatever else is in the batch. A greedy row gets its likeliest id.
    Probabilities (0.5, 0.3, 0.2) with top_p 0.7 keep two ids at (0.625, 0.375), so that u = 0.63
    gives id 1 and ln 0.375. Without `top_ps_B` all are 1, without `is_greedy_B` no row is greedy.
    """
    rows = chunk_rows(logits_BV.shape[1], logits_BV.device)
    if len(logits_BV) > rows:
        batch = logits_BV, temperatures_B, top_ps_B, is_greedy_B, uniforms_B
        chunks = [repeat(None) if part is None else part.split(rows) for part in batch]
        tokens, logprobs = zip(*map(sample_tokens, *chunks), strict=True)
        return torch.cat(tokens), torch.cat(logprobs)
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B[:, None], -1)
    if top_ps_B is None:
        tokens_B = _drawn(logprobs_BV, uniforms_B)
        found_B = _at(logprobs_BV, tokens_B)
    else:
        if is_greedy_B is not None:  # what it draws is not looked at
            top_ps_B = top_ps_B.masked_fill(is_greedy_B, 0.0)
        kept_BK, ids_BK = nuclei(logprobs_BV, top_ps_B)
        index_B = _drawn(kept_BK, uniforms_B)
        tokens_B, found_B = _at(ids_BK, index_B), _at(kept_BK, index_B)
    if is_greedy_B is not None:
        likeliest_B = logits_BV.argmax(-1)
        tokens_B = torch.where(is_greedy_B, likeliest_B, tokens_B)
        found_B = torch.where(is_greedy_B, _at(logprobs_BV, likeliest_B), found_B)
    return tokens_B, found_B


def _at(x_BN: torch.Tensor, index_B: torch.Tensor) -> torch.Tensor:
    return x_BN.gather(-1, index_B[:, None]).squeeze(-1)


def _drawn(logprobs_BV: torch.Tensor, uniforms_B: torch.Tensor) -> torch.Tensor:
    """The first ids with a cumulative probability above u, [B].

    It finds the one of √V pieces that u falls into, then the id. One sum over 150,000 probabilities
    would move the bounds between ids by 1e-5 in float32. In float64 it would take a third of a
    CPU's step.
    """
    num_ids = logprobs_BV.shape[1]
    size = math.isqrt(num_ids - 1) + 1
    probs_BV = logprobs_BV.exp()
    whole = num_ids - num_ids % size
    sums_BP = probs_BV[:, :whole].unflatten(1, (-1, size)).sum(-1)
    rest_B1 = probs_BV[:, whole:].sum(-1, keepdim=True)
    piece_B1, share_B1 = _found(torch.cat([sums_BP, rest_B1], dim=-1), uniforms_B[:, None])
    ids_BI = piece_B1 * size + torch.arange(size, device=piece_B1.device)
    probs_BI = probs_BV.gather(1, ids_BI.clamp(max=num_ids - 1))
    index_B1, _ = _found(probs_BI.masked_fill_(ids_BI >= num_ids, 0.0), share_B1)
    # Logits that are NaN or +∞ make every sum NaN: the last id; its log-probability says so.
    return ids_BI.gather(1, index_B1).squeeze(1).clamp(max=num_ids - 1)


def _found(weights_BN: torch.Tensor, share_B1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index at `share` of the weights' sum, and the share within its weight, [B, 1]."""
    weights_BN = weights_BN.double()
    sums_BN = weights_BN.cumsum(-1)
    target_B1 = share_B1 * sums_BN[:, -1:]
    index_B1 = torch.searchsorted(sums_BN, target_B1, right=True)
    index_B1 = index_B1.clamp(max=weights_BN.shape[1] - 1)
    weight_B1 = weights_BN.take_along_dim(index_B1, 1)
    before_B1 = sums_BN.take_along_dim(index_B1, 1) - weight_B1
    inside_B1 = (target_B1 - before_B1) / weight_B1
    return index_B1, inside_B1.clamp(0.0, 1 - 2.0**-52)


def nuclei(logprobs_BV: torch.Tensor, top_ps_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log π renormalised over each row's nucleus, −∞ outside, and its ids, ascending.

    Both [B, K]. The nucleus is the smallest set of likeliest ids with a mass of at least top_p, of
    equal ones at its edge the lower; of 1, all. K is V where the likeliest ids of a row are not
    enough alone, and on a GPU: that question would let its queue run empty.
    """
    top_ps_B1 = top_ps_B[:, None]
    held_BK, ids_BK = logprobs_BV, torch.arange(logprobs_BV.shape[1], device=logprobs_BV.device)
    if not logprobs_BV.is_cuda and len(ids_BK) > MOST_LIKELY:
        likely_BK, of_likely_BK = logprobs_BV.topk(MOST_LIKELY, sorted=False)
        # Ids as likely as the last of them may be missing.
        is_last_BK = likely_BK == likely_BK.amin(-1, keepdim=True)
        mass_B1 = likely_BK.double().exp().masked_fill(is_last_BK, 0.0).sum(-1, keepdim=True)
        if bool(((mass_B1 >= top_ps_B1) & (top_ps_B1 < 1)).all()):
            ids_BK, order_BK = of_likely_BK.sort(-1)
            held_BK = likely_BK.gather(-1, order_BK)
    falling_BK, order_BK = held_BK.sort(stable=True, dim=-1, descending=True)
    # The mass of the likelier ids; −1 for the first, which is kept also where top_p is 0.
    before_BK = pad(falling_BK.double().exp().cumsum(-1)[:, :-1], (1, 0), value=-1.0)
    is_kept_BK = (before_BK < top_ps_B1) | (top_ps_B1 >= 1)
    kept_BK = held_BK.scatter(-1, order_BK, falling_BK.masked_fill(~is_kept_BK, -torch.inf))
    return kept_BK - kept_BK.logsumexp(-1, keepdim=True), ids_BK.expand_as(kept_BK)
