"""Sampling with a transformers model in this process: no vLLM, and a check of what vLLM samples.

A prefix is read once for the rows that continue it ("Hydragen", arXiv:2402.05099). From top to
bottom: the config, the engine, keys and values of prefixes, decoding behind them, and how one
uniform number makes one token.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from vineppo.distributed import local_rank
from vineppo.engine import (
    Completion,
    Engine,
    EngineConfig,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.engine.concurrency import Concurrency
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.types import FinishReason
from vineppo.vocabulary import chunk_rows

STEPS_A_LOOK = 16  # on a GPU, whose queue runs empty whenever the host looks at tokens
MOST_ROWS = 16  # of a prefix: the most rows of any decide how wide all are laid out
BLOCK = 16  # tokens of a block of a row's own keys and values
ATTENTION = {"full_attention", "sliding_attention"}  # kinds of layers
MOST_LIKELY = 512  # ids that are sorted, if they have the nucleus of every row of a chunk
_Done = Callable[[Completion], None]


@dataclass(frozen=True)
class TransformersConfig(EngineConfig):
    """Each of `max_num_seqs` sequences takes memory for at most 2 · `max_model_len` tokens;
    `max_num_batched_tokens` bounds a pass over prefixes, padding included."""

    def build(self, model: EngineModel) -> Engine:
        return TransformersEngine(self, model)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    layout: "SlotCache | Decoding | None" = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers' layers call; `layout` comes through the model's keyword arguments."""
    if layout is None or attention_mask is not None:
        raise ValueError("a layer keeps the layout from its attention, or has a mask of its own")
    return layout.attend(module, (query, key, value), **options), None


AttentionInterface.register("vineppo_prefixes", _attention)


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
        on_gpu = torch.cuda.is_available()
        self._device = torch.device("cuda", local_rank()) if on_gpu else torch.device("cpu")
        loaded = load_model(model.path, config.dtype, "sdpa").model
        self._model: Any = loaded.eval().to(self._device)
        self._model.set_attn_implementation("vineppo_prefixes")
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
        self._check_model(model.path)

    def _check_model(self, path: str) -> None:
        """Raises `UserError` unless every layer attends to all keys and values, once, by
        transformers' own attention."""
        text = self._model.config.get_text_config()
        window = getattr(text, "sliding_window", None)
        if window is not None and window < self._config.max_model_len:
            raise UserError(
                "config: engine.max_model_len must be at most the model's attention window for "
                f"engine.kind 'transformers', {window}, got {self._config.max_model_len}"
            )
        kinds = set(getattr(text, "layer_types", None) or ())
        is_sound = kinds <= ATTENTION and not self._model._is_stateful
        try:
            with torch.no_grad():
                self._prefill([(0, (0, 0), 0)] if is_sound else [])
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound:
            raise UserError(
                f"model {path}: for engine.kind 'transformers' every layer must attend to all "
                f"tokens, by transformers' own attention, got {self._model.config.model_type}"
            )
        self._drop()

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
        num_free = self._concurrency.admits(len(self._running), in_waves=True)
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
            raise ValueError("a layer has attended without its prefix")

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


class KeysAndValues:
    """Of every layer two tensors [slots, heads, T, head size], made by its first pass."""

    def __init__(self, most_slots: int, num_positions: int) -> None:
        self._most_slots, self._num_positions = most_slots, num_positions
        self.num_slots = 0
        self._by_layer: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def reserve(self, num_slots: int) -> None:
        """Room for so many slots, and for half as many more where there was less."""
        if num_slots > self.num_slots:
            self.num_slots = min(num_slots + num_slots // 2, self._most_slots)
            for layer, held in self._by_layer.items():
                self._by_layer[layer] = self._made(*held)
                for new, state in zip(self._by_layer[layer], held, strict=True):
                    new[: len(state)] = state

    def of_layer(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those that hold such keys and values as a pass has, [B, heads, Q, head size]."""
        if layer not in self._by_layer:
            self._by_layer[layer] = self._made(keys, values)
        return self._by_layer[layer]

    def _made(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Zeros: masked positions have weight 0, which would make NaN of what memory held.
        one, other = (
            like.new_zeros(self.num_slots, like.shape[1], self._num_positions, like.shape[3])
            for like in (keys, values)
        )
        return one, other

    def copy(self, sources: Sequence[int], targets: Sequence[int], width: int) -> None:
        """The first `width` tokens of slots into others, all at once: a slot may be both."""
        states = [state for pair in self._by_layer.values() for state in pair]
        if not sources or not states:
            return
        from_N, to_N = torch.tensor([sources, targets]).to(states[0].device)
        for state in states:
            moved = state[from_N, :, :width]  # a copy, before anything is written
            state[to_N, :, :width] = moved

    def release(self) -> None:
        self.num_slots = 0
        self._by_layer.clear()


class SlotCache:
    """Keys and values of `num_slots` prefixes of up to `num_positions` tokens.

    A slot holds token t of its prefix at position t, so that prefixes of any length share a pass
    without padding on the left. A slot keeps what it held when its prefix is not needed any more:
    the next one that begins alike takes the keys and values over (`longest_held`, `copy`).
    """

    def __init__(self, num_slots: int, num_positions: int, device: torch.device) -> None:
        self._device = device
        self._ids_RT = np.zeros((num_slots, num_positions), dtype=np.int32)
        self.num_held_R = np.zeros(num_slots, dtype=np.int64)
        self.states = KeysAndValues(num_slots, num_positions)
        self.num_layers = 0  # that have attended in the pass entered last
        self._written: Any  # the indices that it writes to, those that it reads, and their mask
        self._read: Any
        self.is_visible_B1QT: torch.Tensor

    def longest_held(self, token_ids: Sequence[int]) -> tuple[int, int]:
        """The slot that holds the longest beginning of `token_ids`, and how long that is."""
        num_slots = self.states.num_slots
        if not token_ids or not num_slots:
            return 0, 0
        ids_T = np.asarray(token_ids, dtype=np.int32)
        differs_RT = self._ids_RT[:num_slots, : len(ids_T)] != ids_T
        agree_R = np.where(differs_RT.any(1), differs_RT.argmax(1), len(ids_T))
        lengths_R = np.minimum(agree_R, self.num_held_R[:num_slots])
        slot = int(lengths_R.argmax())
        return slot, int(lengths_R[slot])

    def copy(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """The first tokens of one slot into another, for every (source, target, length) at once.

        A slot may be source and target.
        """
        if not moves:
            return
        sources, targets, lengths = (list(column) for column in zip(*moves, strict=True))
        self._ids_RT[targets] = self._ids_RT[sources]
        self.num_held_R[targets] = lengths
        self.states.reserve(max(targets) + 1)
        pairs = [(source, target) for source, target, n in moves if n and source != target]
        self.states.copy([pair[0] for pair in pairs], [pair[1] for pair in pairs], max(lengths))

    def exchange(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Swaps the contents of the slots of every pair."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        self.copy([(source, target, int(self.num_held_R[source])) for source, target in both])

    def enter(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> dict[str, Any]:
        """The inputs of a pass that appends `token_ids[b]` to slot `slots[b]` at `starts[b]`.

        Shorter rows are padded on the right; what padding leaves in a slot is overwritten before it
        is ever attended to.
        """
        self.states.reserve(max(slots) + 1)
        length = max(map(len, token_ids))
        ids_BQ = torch.tensor([[*ids, *[0] * (length - len(ids))] for ids in token_ids])
        positions_BQ = torch.tensor(starts)[:, None] + torch.arange(length)
        # No prefix ever reaches the last position: it is there for padding.
        positions_BQ = positions_BQ.clamp(max=self._ids_RT.shape[1] - 1)
        for slot, ids, start in zip(slots, token_ids, starts, strict=True):
            self._ids_RT[slot, start : start + len(ids)] = ids
            self.num_held_R[slot] = start + len(ids)
        width = int(positions_BQ.max()) + 1
        is_visible_BQT = torch.arange(width) <= positions_BQ[:, :, None]
        self.is_visible_B1QT = is_visible_BQT[:, None].to(self._device)
        slots_B = torch.tensor(slots, device=self._device)
        positions_BQ = positions_BQ.to(self._device)
        self._written = slots_B[:, None], slice(None), positions_BQ
        self._read = slots_B, slice(None), slice(width)
        self.num_layers = 0
        return {
            "input_ids": ids_BQ.to(self._device),
            "position_ids": positions_BQ,
            "use_cache": False,
            "layout": self,
        }

    def attend(self, module: Any, states: tuple[torch.Tensor, ...], **options: Any) -> torch.Tensor:
        """Of queries, keys and values [B, heads, Q, d], what each takes: [B, Q, heads, d]."""
        self.num_layers += 1
        query, keys, values = states
        seen = self.extended(module.layer_idx, keys, values)
        return sdpa_attention_forward(module, query, *seen, self.is_visible_B1QT, **options)[0]

    def extended(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the slots with new ones, [B, heads, Q, head size], written behind them."""
        held = self.states.of_layer(layer, keys, values)
        for state, new in zip(held, (keys, values), strict=True):
            state[self._written] = new.transpose(1, 2)
        return held[0][self._read], held[1][self._read]

    def forget(self) -> None:
        """No slot holds anything that a later prefix could take over."""
        self.num_held_R[:] = 0

    def release(self) -> None:
        """Gives the memory back; the next pass takes it again."""
        self.forget()
        self.states.release()


def closing_moves(is_gone_N: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """How many are left, the places to fill among the first of them, and who moves there."""
    num_left = len(is_gone_N) - int(is_gone_N.sum())
    free = np.flatnonzero(is_gone_N[:num_left])
    return num_left, free, num_left + np.flatnonzero(~is_gone_N[num_left:])


class OwnBlocks:
    """Keys and values of what rows have sampled, in blocks of `BLOCK` tokens; those in use lead.

    Rows are of any length, and a pass reads the blocks that they have.
    """

    def __init__(self, num_rows: int, num_positions: int) -> None:
        self.states = KeysAndValues(num_rows * -(-num_positions // BLOCK), BLOCK)
        self.row_N = np.zeros(0, dtype=np.int64)
        self.index_N = np.zeros(0, dtype=np.int64)  # which block of its row it is

    def make_room(self, num_tokens_B: np.ndarray) -> None:
        """So many tokens of every row."""
        held_B = np.bincount(self.row_N, minlength=len(num_tokens_B))
        new_B = -(-num_tokens_B // BLOCK) - held_B
        rows = np.repeat(np.arange(len(new_B)), new_B)
        before = np.repeat(new_B.cumsum() - new_B - held_B, new_B)
        self.row_N = np.concatenate([self.row_N, rows])
        self.index_N = np.concatenate([self.index_N, np.arange(len(rows)) - before])
        self.states.reserve(len(self.row_N))

    def follow(self, new_row_B: np.ndarray) -> None:
        """Row b is now `new_row_B[b]`, or gone (−1)."""
        self.row_N = new_row_B[self.row_N]
        num_left, free, movers = closing_moves(self.row_N < 0)
        self.states.copy(movers.tolist(), free.tolist(), BLOCK)
        for column in (self.row_N, self.index_N):
            column[free] = column[movers]
        self.row_N, self.index_N = self.row_N[:num_left], self.index_N[:num_left]

    def release(self) -> None:
        self.row_N, self.index_N = self.row_N[:0], self.index_N[:0]
        self.states.release()


class Decoding:
    """The `layout` of passes of one token a row, behind prefixes that rows share.

    Row b attends to its prefix and to its own tokens: its softmax is over both, and what it takes
    is Σ_prefix p v + Σ_own p v. The rows of a slot lie side by side, [G, W], so that its keys and
    values are read once for all of them, where they are ("Hydragen", arXiv:2402.05099). With K
    continuations of every state most keys are a prefix's.
    """

    def __init__(
        self,
        prefixes: SlotCache,
        own: OwnBlocks,
        slot_B: np.ndarray,
        device: torch.device,
    ) -> None:
        """Row b is behind the prefix in slot `slot_B[b]`."""
        counts_G = np.bincount(slot_B)
        self._width = int(counts_G.max())
        order_B = slot_B.argsort(kind="stable")
        rank_B = np.empty_like(slot_B)
        rank_B[order_B] = np.arange(len(slot_B)) - (counts_G.cumsum() - counts_G)[slot_B[order_B]]
        place_B = slot_B * self._width + rank_B
        row_at = np.zeros(len(counts_G) * self._width, dtype=np.int64)
        row_at[place_B] = np.arange(len(slot_B))
        held_G = prefixes.num_held_R[: len(counts_G)]
        self._read = slice(len(counts_G)), slice(None), slice(int(held_G.max()))
        block_BJ = np.full((len(slot_B), int(own.index_N.max()) + 1), -1)
        block_BJ[own.row_N, own.index_N] = np.arange(len(own.row_N))
        self._prefixes, self._own = prefixes.states, own.states
        self.num_layers = 0  # that have attended, in all passes

        def put(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        self._place_B, self._row_at = put(place_B), put(row_at)
        self._row_N, self._place_N = (
            put(own.row_N),
            put(own.row_N * block_BJ.shape[1] + own.index_N),
        )
        self._block_BJ = put(block_BJ)
        self._is_none_BJ111 = (self._block_BJ < 0)[:, :, None, None, None]
        self._any_block_L = self._block_BJ.clamp(min=0).flatten()
        self._is_hidden_G11P = _beyond(put(held_G), int(held_G.max()))

    def enter(self, num_own_B: torch.Tensor) -> None:
        """The next pass is of the token that follows `num_own_B` of its row's own."""
        block_B1 = self._block_BJ.gather(1, num_own_B[:, None] // BLOCK)
        self._written = block_B1[:, 0], slice(None), num_own_B % BLOCK
        self._is_hidden_B11T = _beyond(num_own_B + 1, BLOCK * self._block_BJ.shape[1])

    def attend(
        self,
        module: Any,
        states: tuple[torch.Tensor, ...],
        scaling: float | None = None,
        **_options: Any,
    ) -> torch.Tensor:
        """Of queries, keys and values [B, heads, 1, d], what each token takes: [B, 1, heads, d]."""
        self.num_layers += 1
        query, key, value = states
        count, num_heads, _, size = query.shape
        of_layer = self._own.of_layer(module.layer_idx, key, value)
        for state, new in zip(of_layer, (key, value), strict=True):
            state[self._written] = new[:, :, 0]
        own_keys, own_values = (state[: len(self._row_N)] for state in of_layer)
        keys, values = (
            state[self._read] for state in self._prefixes.of_layer(module.layer_idx, key, value)
        )
        query_BhRd = query.view(count, key.shape[1], -1, size)  # R heads share keys
        behind_GhRP = _dot(self._side_by_side(query_BhRd), keys)
        behind_GhRP.masked_fill_(self._is_hidden_G11P, -torch.inf)
        own_BJhRt = self._by_row(_dot(query_BhRd.index_select(0, self._row_N), own_keys))
        own_BhRT = own_BJhRt.permute(0, 2, 3, 1, 4).flatten(3, 4)
        own_BhRT.masked_fill_(self._is_hidden_B11T, -torch.inf)
        scale = size**-0.5 if scaling is None else scaling
        scores_BhRS = torch.cat([self._row_by_row(behind_GhRP), own_BhRT], dim=-1).mul_(scale)
        weights = scores_BhRS.softmax(-1).to(value.dtype)
        behind, mine = weights.split([keys.shape[2], own_BhRT.shape[3]], dim=-1)
        taken = self._row_by_row(torch.matmul(self._side_by_side(behind), values))
        taken_NhRd = torch.matmul(self._of_blocks(mine), own_values)
        taken_BJhRd = self._by_row(taken_NhRd).masked_fill_(self._is_none_BJ111, 0.0)
        taken = taken + taken_BJhRd.sum(1)
        return taken.reshape(count, 1, num_heads, -1)

    def _side_by_side(self, x_BhRe: torch.Tensor) -> torch.Tensor:
        """[G, h, W · R, e]"""
        x_GWhRe = x_BhRe.index_select(0, self._row_at).unflatten(0, (-1, self._width))
        return x_GWhRe.transpose(1, 2).flatten(2, 3)

    def _row_by_row(self, x_Ghre: torch.Tensor) -> torch.Tensor:
        """[B, h, R, e] of [G, h, W · R, e]"""
        x_GhWRe = x_Ghre.unflatten(2, (self._width, -1))
        return x_GhWRe.transpose(1, 2).flatten(0, 1).index_select(0, self._place_B)

    def _by_row(self, x_NhRe: torch.Tensor) -> torch.Tensor:
        """[B, J, h, R, e] of blocks [N, h, R, e]; where a row has none, of any."""
        return x_NhRe.index_select(0, self._any_block_L).unflatten(0, self._block_BJ.shape)

    def _of_blocks(self, x_BhRT: torch.Tensor) -> torch.Tensor:
        """[N, h, R, t] of rows [B, h, R, T]"""
        x_BJhRt = x_BhRT.unflatten(3, (-1, BLOCK)).permute(0, 3, 1, 2, 4)
        return x_BJhRt.flatten(0, 1).index_select(0, self._place_N)


def _beyond(lengths_B: torch.Tensor, width: int) -> torch.Tensor:
    """Which of `width` positions lie behind each length, [B, 1, 1, width]."""
    places = torch.arange(width, device=lengths_B.device)
    return (places >= lengths_B[:, None])[:, None, None]


def _dot(query_BhRd: torch.Tensor, keys_BhTd: torch.Tensor) -> torch.Tensor:
    """q · k in float32: rounded to bfloat16, scores would move by a percent and more."""
    query, keys = query_BhRd.flatten(0, 1), keys_BhTd.flatten(0, 1).transpose(1, 2)
    if query.is_cuda and query.dtype != torch.float32:
        found = torch.bmm(query, keys, out_dtype=torch.float32)
    else:
        found = torch.bmm(query.float(), keys.float())
    return found.unflatten(0, query_BhRd.shape[:2])


def uniforms(seed: int, count: int) -> np.ndarray:
    """The numbers in [0, 1) that decide the first `count` tokens of the response of `seed`.

    Multiples of 2⁻⁵², so that u · total stays below total when it is rounded.
    """
    stream = np.random.Generator(np.random.Philox(key=seed))
    return stream.integers(1 << 52, size=count) * 2.0**-52


def sample_tokens(
    logits_BV: torch.Tensor,
    temperatures_B: torch.Tensor,
    top_ps_B: torch.Tensor | None,
    is_greedy_B: torch.Tensor | None,
    uniforms_B: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities after temperature and top_p (nats), each [B].

    The token is the first id whose cumulative probability exceeds u: up to rounding a function of
    its row and of u, whatever else is in the batch; of a greedy row the likeliest. Probabilities
    (0.5, 0.3, 0.2) with top_p 0.7 keep two ids at (0.625, 0.375), so that u = 0.63 gives id 1 and
    ln 0.375. Without `top_ps_B` all are 1, without `is_greedy_B` no row is greedy.
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
    """The first ids whose cumulative probability exceeds u, [B].

    Of √V pieces the one that u falls into, then its id: one sum over 150,000 probabilities would
    move the bounds between ids by 1e-5 in float32, and take a third of a CPU's step in float64.
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
    # Of logits that are NaN or +∞ every sum is NaN: the last id, whose log-probability says so.
    return ids_BI.gather(1, index_B1).squeeze(1).clamp(max=num_ids - 1)


def _found(weights_BN: torch.Tensor, share_B1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index at `share` of the weights' sum, and at which share of its own weight, [B, 1]."""
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
    """log π renormalised over each row's nucleus, −∞ outside, of the ids beside it, ascending.

    Both [B, K]. The nucleus is the smallest set of likeliest ids with a mass of at least top_p, of
    equal ones at its edge the lower; of 1, all. K is V where the likeliest ids of a row are not
    enough alone, and on a GPU, whose queue would run empty at that question.
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
