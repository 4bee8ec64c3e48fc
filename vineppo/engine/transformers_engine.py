"""Sampling with a transformers model in this process: no vLLM, and a check of what vLLM samples."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from vineppo.config.schema import TransformersConfig
from vineppo.distributed import local_rank
from vineppo.engine.concurrency import Concurrency, wave
from vineppo.engine.decoding import Decoding, OwnBlocks, closing_moves
from vineppo.engine.interface import (
    Completion,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.engine.slot_cache import SlotCache
from vineppo.engine.token_sampling import sample_tokens, uniforms
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.no_cache import NoCache
from vineppo.packing import hands_on_layout
from vineppo.types import FinishReason

STEPS_A_LOOK = 16  # on a GPU, whose queue runs empty whenever the host looks at tokens
MOST_ROWS = 16  # of a prefix: the most rows of any decide how wide all are laid out
_Done = Callable[[Completion], None]


def load_sampled_model(path: str, dtype: str, max_model_len: int) -> Any:
    """The causal LM at `path` on this rank's device.

    Raises `UserError` where its layers hold more, or see less, than all keys and values so far.
    """
    model = load_model(path, dtype, "sdpa").model.eval()
    if not hands_on_layout(model):
        raise UserError(
            f"model {path}: for engine.kind 'transformers' every layer must attend to all tokens, "
            f"by transformers' own attention, got {model.config.model_type}"
        )
    window = getattr(model.config.get_text_config(), "sliding_window", None)
    if window is not None and window < max_model_len:
        raise UserError(
            "config: engine.max_model_len must be at most the model's attention window for "
            f"engine.kind 'transformers', {window}, got {max_model_len}"
        )
    on_gpu = torch.cuda.is_available()
    return model.to(torch.device("cuda", local_rank()) if on_gpu else torch.device("cpu"))


@dataclass(eq=False)
class _Prefix:
    """All but the last of `token_ids`, in slot `slot` of the cache; `num_rows` continue it."""

    token_ids: tuple[int, ...]
    slot: int
    num_rows: int = 0


@dataclass
class _Row:
    request: SampleRequest
    done: _Done
    prefix: _Prefix
    cached_tokens: int


def _table(num_rows: int, num_positions: int) -> np.ndarray:
    """What steps read and write of running rows: `room` tokens may be sampled, `num` are."""
    fields: list[tuple[Any, ...]] = [
        *((name, np.int64) for name in ("first_position", "last_id", "room", "num", "stops")),
        *((name, np.float32) for name in ("temperature", "top_p")),
        *((name, np.bool_) for name in ("is_greedy", "has_ended")),
        ("token_ids", np.int64, num_positions),
        ("logprobs", np.float32, num_positions),
        ("uniforms", np.float64, num_positions),
    ]
    return np.zeros(num_rows, dtype=fields)


class TransformersEngine:
    """`Engine` on the forward pass of a transformers model with a copy of the weights of its own.

    A pass feeds every running row its last token and samples the next. A step is one pass, on a GPU
    `STEPS_A_LOOK` of them: what a row samples behind its end is dropped. Finished rows leave,
    waiting ones join. Of a prefix all but the last token is taken over from a slot that holds it,
    or computed, once for up to `MOST_ROWS` that share it, which read it where it lies (`Decoding`).
    transformers' own continuous batching has one random stream and one temperature for all.
    """

    def __init__(self, config: TransformersConfig, model: EngineModel) -> None:
        self._config = config
        self._model = load_sampled_model(model.path, config.dtype, config.max_model_len)
        self._device = self._model.device
        self._num_layers = self._model.config.get_text_config().num_hidden_layers
        self._num_token_ids = model.num_token_ids
        self._steps_a_look = STEPS_A_LOOK if self._device.type == "cuda" else 1
        num_rows, num_positions = config.max_num_seqs, config.max_model_len
        self._cache = SlotCache(num_rows, num_positions, self._device)
        self._own = OwnBlocks(num_rows, num_positions + STEPS_A_LOOK)
        self._table = _table(num_rows, num_positions + STEPS_A_LOOK)
        self._stop_ids = model.stop_ids
        self._stops: dict[tuple[int, ...], int] = {}  # of requests, to their row of:
        self._ends_SV = np.zeros((0, model.num_token_ids), dtype=bool)
        self._concurrency = Concurrency(num_rows, num_positions)
        self._waiting: deque[tuple[SampleRequest, _Done]] = deque()
        self._running: list[_Row] = []  # row i has line i of the table and slot i of `own`
        self._prefixes: list[_Prefix] = []  # prefix i is in slot i of the cache
        self._shared: dict[tuple[int, ...], _Prefix] = {}  # of each one with room
        self.ranks_a_replica = 1
        self.counts = EngineCounts(0, 0, 0)

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
        for row, completion in finished:
            self.counts = replace(
                self.counts,
                prompt_tokens=self.counts.prompt_tokens + len(row.request.prefix_ids),
                cached_tokens=self.counts.cached_tokens + row.cached_tokens,
                sampled_tokens=self.counts.sampled_tokens + len(completion.token_ids),
            )
            row.done(completion)

    def _completion(self, index: int, finish_reason: FinishReason) -> Completion:
        line = self._table[index]
        count = int(line["num"])
        logprobs_T = tuple(line["logprobs"][:count].tolist())
        with_logprobs = self._running[index].request.with_logprobs
        return Completion(
            tuple(line["token_ids"][:count].tolist()),
            logprobs_T if with_logprobs else (),
            finish_reason,
        )

    def _start_over(self, error: Exception) -> None:
        """Running rows wait again, in their order and with nothing sampled; no slot is believed."""
        self._concurrency.lower(error, len(self._running))
        self._waiting.extendleft((row.request, row.done) for row in reversed(self._running))
        self._drop()
        self.counts = replace(self.counts, num_retries=self.counts.num_retries + 1)

    def _drop(self) -> None:
        """What runs, and every key and value."""
        self._running.clear()
        self._prefixes.clear()
        self._shared.clear()
        self._cache.release()
        self._own.release()

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
        self._drop()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def wake(self) -> None:
        """Nothing: the next step takes memory again."""

    def _admit(self) -> None:
        """Waiting rows take the free places, behind a prefix that runs or a new one."""
        new: dict[tuple[int, ...], list[_Row]] = {}
        num_free = wave(len(self._running), self._concurrency.limit)
        for _ in range(min(num_free, len(self._waiting))):
            request, done = self._waiting.popleft()
            ids = request.prefix_ids
            prefix = self._shared.get(ids)
            if prefix is None or prefix.num_rows == MOST_ROWS:
                prefix = self._shared[ids] = _Prefix(ids, slot=len(self._prefixes))
                self._prefixes.append(prefix)
            prefix.num_rows += 1
            row = _Row(request, done, prefix, cached_tokens=len(ids) - 1)
            if prefix.num_rows == 1:
                new.setdefault(ids, []).append(row)
            self._running.append(row)
            self._start(request, self._table[len(self._running) - 1])
        held, missing, copies = [], [], []
        for ids, (first, *others) in new.items():
            source, length = self._cache.longest_held(ids[:-1])
            first.cached_tokens, slot = length, first.prefix.slot
            held.append((source, slot, length))
            missing.append((slot, ids[length:-1], length))
            copies += [(slot, other.prefix.slot, len(ids) - 1) for other in others]
        self._cache.copy(held)
        self._prefill(missing)
        self._cache.copy(copies)

    def _prefill(self, parts: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
        """Keys and values of (slot, token ids, where they start), without logits."""
        pending = sorted((part for part in parts if part[1]), key=lambda part: len(part[1]))
        while pending:
            # As many as have at most so many tokens with their padding; one always fits.
            padded = [count * len(ids) for count, (_, ids, _) in enumerate(pending, start=1)]
            end = max(1, bisect_right(padded, self._config.max_num_batched_tokens))
            slots, token_ids, starts = zip(*pending[:end], strict=True)
            self._model.base_model(**self._cache.enter(slots, token_ids, starts))
            self._check_layers(self._cache.num_layers, 1)
            del pending[:end]

    def _start(self, request: SampleRequest, line: np.ndarray) -> None:
        stop_ids = (*self._stop_ids, *request.stop_ids)
        if stop_ids not in self._stops:
            ends_V = np.isin(np.arange(self._num_token_ids), stop_ids)
            self._stops[stop_ids] = len(self._stops)
            self._ends_SV = np.vstack([self._ends_SV, ends_V])
        room = min(request.max_tokens, self._config.max_model_len - len(request.prefix_ids))
        line["first_position"] = len(request.prefix_ids) - 1
        line["last_id"] = request.prefix_ids[-1]
        line["room"], line["num"], line["stops"] = room, 0, self._stops[stop_ids]
        # vLLM gives a greedy token's log-probability at temperature 1, without top_p.
        line["is_greedy"] = is_greedy = request.temperature == 0
        line["temperature"] = 1.0 if is_greedy else request.temperature
        line["top_p"] = 1.0 if is_greedy else request.top_p
        line["uniforms"][:room] = uniforms(request.seed, room)

    def _sample(self) -> None:
        """Every running row gets its next tokens."""
        count, num_steps = len(self._running), self._steps_a_look
        lines = self._table[:count]
        num_B = lines["num"].copy()
        slot_B = np.array([row.prefix.slot for row in self._running])
        self._own.make_room(num_B + num_steps)
        decoding = Decoding(self._cache, self._own, slot_B, self._device)
        columns = "last_id", "first_position", "num", "temperature", "top_p", "is_greedy"
        ids_B, first_B, own_B, temperatures_B, top_ps_B, is_greedy_B = (
            torch.from_numpy(lines[name].copy()).to(self._device) for name in columns
        )
        steps_BS = num_B[:, None] + np.arange(num_steps)
        uniforms_BS = torch.from_numpy(
            np.take_along_axis(lines["uniforms"], steps_BS, axis=1),
        ).to(self._device)
        has_nuclei, has_greedy = (lines["top_p"] < 1).any(), lines["is_greedy"].any()
        found = []
        for step in range(num_steps):
            decoding.enter(own_B + step)
            positions_BQ = (first_B + own_B + step)[:, None]
            logits_BQV = self._model(
                input_ids=ids_B[:, None],
                # Beyond its room a row may stand where the model has no position.
                position_ids=positions_BQ.clamp(max=self._config.max_model_len - 1),
                past_key_values=NoCache(),
                use_cache=False,
                layout=decoding,
            ).logits
            ids_B, logprobs_B = sample_tokens(
                logits_BQV[:, -1, : self._num_token_ids],
                temperatures_B,
                top_ps_B if has_nuclei else None,
                is_greedy_B if has_greedy else None,
                uniforms_BS[:, step],
            )
            found.append((ids_B, logprobs_B))
        self._check_layers(decoding.num_layers, num_steps)
        ids_BS, logprobs_BS = (
            torch.stack(part, 1).cpu().numpy() for part in zip(*found, strict=True)
        )
        np.put_along_axis(lines["token_ids"], steps_BS, ids_BS, axis=1)
        np.put_along_axis(lines["logprobs"], steps_BS, logprobs_BS, axis=1)
        lines["last_id"] = ids_BS[:, -1]
        ends_BS = self._ends_SV[lines["stops"][:, None], ids_BS]
        up_to_end_B = np.where(ends_BS.any(1), ends_BS.argmax(1) + 1, num_steps + 1)
        left_B = lines["room"] - num_B
        lines["has_ended"] = up_to_end_B <= np.minimum(left_B, num_steps)
        lines["num"] += np.minimum(np.minimum(up_to_end_B, left_B), num_steps)

    def _check_layers(self, num_attended: int, num_passes: int) -> None:
        if num_attended != num_passes * self._num_layers:
            raise RuntimeError("a layer has attended without its prefix")

    def _leave(self) -> list[tuple[_Row, Completion]]:
        """Takes out the finished rows, and prefixes without any; the last move into their places.

        A prefix that goes stays in its slot for later ones, until another is written there.
        """
        lines = self._table[: len(self._running)]
        is_done_B = lines["has_ended"] | (lines["num"] == lines["room"])
        finished = [
            (self._running[i], self._completion(i, "stop" if lines["has_ended"][i] else "length"))
            for i in np.flatnonzero(is_done_B).tolist()
        ]
        for row, _ in finished:
            row.prefix.num_rows -= 1
        new_row_B = np.where(is_done_B, -1, np.arange(len(lines)))
        for to, start in _closed_up(self._running, is_done_B):
            self._table[to] = self._table[start]
            new_row_B[start] = to
        self._own.follow(new_row_B)
        is_free_G = np.array([not prefix.num_rows for prefix in self._prefixes], dtype=bool)
        moves = _closed_up(self._prefixes, is_free_G)
        self._cache.exchange(moves)
        for slot, _ in moves:
            self._prefixes[slot].slot = slot
        self._shared = {p.token_ids: p for p in self._prefixes if p.num_rows < MOST_ROWS}
        return finished


def _closed_up(items: list[Any], is_done_B: np.ndarray) -> list[tuple[int, int]]:
    """Takes the done items out; of those that moved into their places, (to, from)."""
    num_left, free, movers = closing_moves(is_done_B)
    moves = list(zip(free.tolist(), movers.tolist(), strict=True))
    for to, start in moves:
        items[to] = items[start]
    del items[num_left:]
    return moves
