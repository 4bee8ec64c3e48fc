"""Per response token: log-probabilities, entropies, KL and value outputs of a model.

Passes without a gradient over any number of sequences, some of them while rollouts are sampled.
The statistics of logits have a hand-written gradient: autograd would keep several float32 copies of
[N, V] logits, or project the hidden states twice. Here the logits are kept once, as the projection
gave them, and become their own gradient.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from vineppo.batching import collate, micro_batches_of, response_rows
from vineppo.distributed import LONE, RankGroup, all_ranks, largest
from vineppo.errors import UserError
from vineppo.losses import full
from vineppo.models import can_pack, has_attention_alone, no_cache, packed_hidden
from vineppo.types import Rollout, TokenSequence, TrainBatch

if TYPE_CHECKING:
    from vineppo.policy import Reference

MIN_PROJECTED = 128  # rows
# What `token_statistics` finds, in its order.
PROJECTED = "logprobs_BT", "entropy_BT", "kl_BT", "ref_logprobs_BT"
Row = tuple[float, ...]  # one number a response token
Rows = list[Row]  # one a sequence
RolloutKey = tuple[str, int]  # problem id, rollout index
S = TypeVar("S", bound=TokenSequence)
T = TypeVar("T")
# Micro-batches' worth of finished rollouts that are cut by length together, against padding.
POOL = 4
# Rows × vocabulary of a chunk of float32 numbers: a CPU's caches hold it, it keeps a GPU busy.
CHUNK_LOGITS = {"cpu": 2**20, "cuda": 2**26}
# Stands for log 0 where p log p is taken: its exponential is 0, and 0 times it is 0, not NaN.
LOG_0 = -1e4


@dataclass(frozen=True)
class ForwardOptions:
    """Numbers that a pass of the policy computes besides log-probabilities."""

    temperature: float
    reference: "Reference | None" = None  # the exact KL to it, and its log-probabilities
    has_entropy: bool = False
    has_hidden: bool = False
    num_candidates: int = 0  # of the likeliest tokens, in a pass without a gradient
    only_values: bool = False  # of the value head, from hidden states without a gradient


@dataclass(frozen=True)
class TokenScores:
    """The policy's scores of response tokens, each [B, T], 0 elsewhere (nats)."""

    logprobs_BT: torch.Tensor  # of the tempered policy, like the entropy
    entropy_BT: torch.Tensor  # 0 unless asked for
    kl_BT: torch.Tensor  # the exact one to the reference; 0 without one
    ref_logprobs_BT: torch.Tensor
    value_outputs_BT: torch.Tensor  # of the state before the token, without a temperature
    hidden_BTH: torch.Tensor | None = None  # the last layer's before the tokens, without gradient
    candidate_ids_BTK: torch.Tensor | None = None  # the likeliest tokens, in falling order
    candidate_logprobs_BTK: torch.Tensor | None = None


class TokenLogprobs(nn.Module):
    """log π(token t | tokens < t) and more at every response position of a batch.

    Only response positions pass the vocabulary projection, each once; ids that are padding of the
    embedding matrix are outside the softmax, as for the engine. If the model `is_sharded` over the
    ranks, all of them must pass equally often.
    """

    def __init__(
        self,
        model: Any,
        num_token_ids: int,
        value_head: nn.Module | None = None,
        is_sharded: bool = False,
    ) -> None:
        super().__init__()
        for key in ("logit_scale", "logits_scaling"):
            if getattr(model.config, key, None) not in (None, 1, 1.0):
                raise UserError(f"model {model.name_or_path}: {key} in its config is not supported")
        self.model = model
        self.value_head = value_head
        self.num_token_ids = num_token_ids
        self.is_sharded = is_sharded
        self.softcap: float | None = getattr(model.config, "final_logit_softcapping", None)

    def forward(self, batch: TrainBatch, options: ForwardOptions) -> dict[str, torch.Tensor]:
        """The fields of `TokenScores`: DeepSpeed's hooks know no dataclass."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not options.only_values):
            hidden_NH = hidden_before_tokens(self.model.base_model, batch)
        zeros_N = torch.zeros(len(hidden_NH), device=hidden_NH.device)
        scores_N = dict.fromkeys((*PROJECTED, "value_outputs_BT"), zeros_N)
        if not options.only_values:
            scores_N |= self._project(hidden_NH, batch, options)
        if self.value_head is not None:
            scores_N["value_outputs_BT"] = self.value_head(hidden_NH).squeeze(-1).float()
        if options.has_hidden or options.num_candidates:
            scores_N["hidden_BTH"] = hidden_NH.detach()
        return {name: spread(x_N, batch) for name, x_N in scores_N.items()}

    def logits(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """[N, V] as the projection gives them, padded ids included."""
        head: Callable[[torch.Tensor], torch.Tensor] = self.model.get_output_embeddings()
        return head(hidden_NH)

    def _project(
        self, hidden_NH: torch.Tensor, batch: TrainBatch, options: ForwardOptions
    ) -> dict[str, torch.Tensor]:
        targets_N = batch.token_ids_BT.flatten()[batch.response_index_N]
        softmax = Softmax(self.num_token_ids, self.softcap, options.temperature)
        ref_logits = None if options.reference is None else options.reference.logits(batch)
        chunk = chunk_rows(self.model.config.vocab_size, hidden_NH.device)

        def statistics(rows: slice) -> dict[str, torch.Tensor]:
            ref_logits_NV = None if ref_logits is None else ref_logits(rows)
            logits_NV = self.logits(hidden_NH[rows])
            found_N = token_statistics(
                logits_NV, targets_N[rows], softmax, options.has_entropy, ref_logits_NV
            )
            scores_N = dict(zip(PROJECTED, found_N, strict=True))
            if options.num_candidates:
                num_candidates = min(options.num_candidates, self.num_token_ids)
                likeliest = [softmax.log(x).topk(num_candidates) for x in logits_NV.split(chunk)]
                logprobs, ids = map(torch.cat, zip(*likeliest, strict=True))
                scores_N |= {"candidate_ids_BTK": ids, "candidate_logprobs_BTK": logprobs}
            return scores_N

        if torch.is_grad_enabled():
            return statistics(slice(None))
        # Without a gradient to come no logits need to stay. A sharded head is gathered once a
        # chunk, for which all ranks must meet equally often. Otherwise they must not: the reference
        # passes when a rank's own rollouts are there. `MIN_PROJECTED`: for the few rows that fit in
        # a CPU's cache, all weights of the projection would be read.
        size = max(MIN_PROJECTED, chunk)
        most = len(hidden_NH)
        if self.is_sharded:
            most = largest(most, hidden_NH.device)
        parts = [statistics(slice(i, i + size)) for i in range(0, max(1, most), size)]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def hidden_before_tokens(backbone: Any, batch: TrainBatch) -> torch.Tensor:
    """The last hidden states of the states before the response's tokens, [N, H]."""
    if batch.packed is not None and can_pack(backbone):
        hidden_MH = packed_hidden(backbone, batch.packed)
        return hidden_MH.index_select(0, batch.packed.state_index_N)
    hidden_BTH = last_hidden(backbone, batch.token_ids_BT)
    # The state before token t predicts token t; a boolean mask would make a GPU wait for its count.
    return hidden_BTH.flatten(0, 1).index_select(0, batch.response_index_N - 1)


def last_hidden(backbone: Any, token_ids_BT: torch.Tensor) -> torch.Tensor:
    """The last hidden states of sequences padded on the right, [B, T, H]."""
    hidden_BTH: torch.Tensor = backbone(
        input_ids=token_ids_BT,
        # No mask: the padding stands on the right, where no token looks. With a mask, transformers
        # would ask the device before every pass whether there is any padding.
        past_key_values=no_cache()() if has_attention_alone(backbone) else None,
        use_cache=False,
    ).last_hidden_state
    return hidden_BTH


def spread(x_N: torch.Tensor, batch: TrainBatch) -> torch.Tensor:
    """Numbers of the response tokens at their places in [B, T], 0 elsewhere; or rows of them."""
    shape, *more = batch.token_ids_BT.shape, *x_N.shape[1:]
    zeros_M = torch.zeros(shape.numel(), *more, dtype=x_N.dtype, device=x_N.device)
    return zeros_M.index_copy(0, batch.response_index_N, x_N).view(*shape, *more)


def token_columns(
    forward: Callable[[TrainBatch], Sequence[torch.Tensor]],
    sequences: Sequence[TokenSequence],
    micro_batch_size: int,
    device: torch.device,
    ranks: RankGroup | None = None,
    packs: bool = False,
) -> list[Rows]:
    """Values of `forward` at every response token, without gradient; one `Rows` per tensor."""

    def read(batch: TrainBatch, chosen: Sequence[TokenSequence]) -> list[tuple[Row, ...]]:
        return response_rows(forward(batch), batch, chosen)

    rows_B = read_sequences(read, sequences, micro_batch_size, device, ranks, packs=packs)
    return [list(column) for column in zip(*rows_B, strict=True)]


def read_sequences(
    read: Callable[[TrainBatch, Sequence[S]], Sequence[T]],
    sequences: Sequence[S],
    micro_batch_size: int,
    device: torch.device,
    ranks: RankGroup | None = None,
    columns: Sequence[str] = (),
    packs: bool = False,
) -> list[T]:
    """The result of `read` for every sequence, batched with others, without gradient.

    The batches carry `columns`, and are packed if the model takes them so. Each of `ranks` (None:
    of all) passes its share, and has all of them in the end.
    """
    ranks = ranks or all_ranks()
    mine: list[tuple[int, T]] = []
    sizes = micro_batch_size, ranks.rank, ranks.size
    for share in micro_batches_of(sequences, *sizes, device, packs):
        chosen = [sequences[i] for i in share]
        batch = collate(chosen, device, columns, packs)
        with torch.no_grad():
            of_chosen = read(batch, chosen)
        mine += zip(share, of_chosen, strict=False)  # an empty share has a row
    by_index = {index: row for share in ranks.gather(mine) for index, row in share}
    return [by_index[index] for index in range(len(sequences))]


def entropies(
    scores: Callable[[TrainBatch, ForwardOptions], TokenScores], temperature: float
) -> Callable[[TrainBatch], torch.Tensor]:
    """H(π(· | s_t)) in nats, exact over the vocabulary, by a pass of the tempered policy."""
    options = ForwardOptions(temperature, has_entropy=True)
    return lambda batch: scores(batch, options).entropy_BT


@dataclass
class RolloutPass:
    """A column of finished rollouts, found while others are sampled: log π_ref, or entropies.

    Rollouts gather here until they are enough to be cut by length into micro-batches. Which of them
    share a batch depends on the order of `add` alone. The `ranks` of a replica add the same
    rollouts, divide the passes, and get the same numbers, so that they cut alike. A pass `beside`
    the engine gets its own thread and stream on a GPU. On a CPU it comes between the engine's
    steps, which need every core.
    """

    column: str
    forward: Callable[[TrainBatch], torch.Tensor]
    micro_batch_size: int
    device: torch.device
    ranks: RankGroup = LONE
    packs: bool = False
    beside: bool = False

    def __post_init__(self) -> None:
        self._pool: list[Rollout] = []
        self._running: list[tuple[list[Rollout], Future[Rows]]] = []
        has_stream = self.beside and self.device.type == "cuda"
        self._thread = ThreadPoolExecutor(1) if has_stream else None
        self._stream = torch.cuda.Stream(self.device) if has_stream else None

    def add(self, rollout: Rollout) -> None:
        self._pool.append(rollout)

    def is_due(self, is_last: bool) -> bool:
        """True if there are rollouts enough to cut by length; `is_last`: no more will come."""
        return len(self._pool) >= (1 if is_last else POOL * self.micro_batch_size)

    def work(self) -> list[Rollout]:
        """Starts on all that were added, and returns them in their order."""
        pool, self._pool = self._pool, []
        if self._thread is not None:
            self._running.append((pool, self._thread.submit(self._rows, pool)))
        else:
            self._set(pool, self._rows(pool))
        return pool

    def wait(self) -> None:
        """Until all that was started is done, and the rollouts have their column."""
        while self._running:
            pool, rows = self._running.pop()
            self._set(pool, rows.result())

    def _rows(self, pool: list[Rollout]) -> Rows:
        if not pool:
            return []
        with torch.cuda.stream(self._stream):  # None: where all else runs
            (rows,) = token_columns(
                lambda batch: (self.forward(batch),),
                pool, self.micro_batch_size, self.device, self.ranks, self.packs,
            )  # fmt: skip
        return rows

    def _set(self, pool: list[Rollout], rows: Rows) -> None:
        for rollout, row_T in zip(pool, rows, strict=True):
            rollout.tokens_T[self.column] = row_T


@dataclass(frozen=True)
class Softmax:
    """How logits become a distribution: ids below `num_token_ids`, softcapped, at a temperature.

    z = cap · tanh(x / cap) / temperature, or x / temperature where `softcap` is None.
    """

    num_token_ids: int
    softcap: float | None
    temperature: float

    def log(self, logits_NV: torch.Tensor) -> torch.Tensor:
        """log softmax(z), [N, num_token_ids], float32."""
        z_NV = logits_NV[:, : self.num_token_ids].float()
        if self.softcap is not None:
            z_NV = self.softcap * torch.tanh(z_NV / self.softcap)
        return torch.log_softmax(z_NV / self.temperature, -1)

    def pull_back(self, gradient_NV: torch.Tensor, logits_NV: torch.Tensor) -> torch.Tensor:
        """The gradient with respect to the logits from the one with respect to z."""
        gradient_NV = gradient_NV / self.temperature
        if self.softcap is None:
            return gradient_NV
        x_NV = logits_NV[:, : self.num_token_ids].float()
        return gradient_NV * (1 - torch.tanh(x_NV / self.softcap).square())


def token_statistics(
    logits_NV: torch.Tensor,
    targets_N: torch.Tensor,
    softmax: Softmax,
    has_entropy: bool,
    ref_logits_NV: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """log p(target), H(p), KL(p ‖ q) and log q(target) of every row, each [N], in nats.

    p is the softmax of `logits_NV` and q that of `ref_logits_NV`; without those KL and log q are 0,
    and H is 0 unless `has_entropy`. The first three have gradients with respect to `logits_NV`.
    `backward` overwrites the logits' memory: nothing else may read them. With p = (1/2, 1/4, 1/4)
    and target 1: log p = −1.386, H = 1.040. A logit of −inf is a token of probability 0: it adds
    nothing, and its gradient is 0.

        ∂ log p(y)/∂z = 1[y] − p,   ∂H/∂z = −p (log p + H),   ∂KL/∂z = p (log p − log q − KL)
    """
    return _TokenStatistics.apply(logits_NV, targets_N, softmax, has_entropy, ref_logits_NV)


class _TokenStatistics(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits_NV: torch.Tensor,
        targets_N: torch.Tensor,
        softmax: Softmax,
        has_entropy: bool,
        ref_logits_NV: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:
        found_4N = torch.zeros(4, len(logits_NV), device=logits_NV.device)
        for rows in _chunks(logits_NV):
            targets_C1 = targets_N[rows, None]
            log_p_CV = softmax.log(logits_NV[rows])
            found_4N[0, rows] = log_p_CV.gather(-1, targets_C1).squeeze(-1)
            if has_entropy:
                found_4N[1, rows] = -(log_p_CV.exp() * log_p_CV.clamp(min=LOG_0)).sum(-1)
            if ref_logits_NV is not None:
                log_q_CV = softmax.log(ref_logits_NV[rows])
                found_4N[2, rows] = full(log_p_CV, log_q_CV)
                found_4N[3, rows] = log_q_CV.gather(-1, targets_C1).squeeze(-1)
        logprobs_N, entropy_N, kl_N, ref_logprobs_N = found_4N
        # Not by save_for_backward, which forbids to overwrite: backward writes into the logits.
        ctx.saved = (logits_NV, targets_N, softmax, ref_logits_NV, entropy_N, kl_N)
        ctx.mark_non_differentiable(ref_logprobs_N)
        ctx.set_materialize_grads(False)  # None for what the loss does not use
        return logprobs_N, entropy_N, kl_N, ref_logprobs_N

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        logits_NV, targets_N, softmax, ref_logits_NV, entropy_N, kl_N = ctx.saved
        ctx.saved = None
        for_logprobs_N, for_entropy_N, for_kl_N, _ = gradients
        for rows in _chunks(logits_NV):
            log_p_CV = softmax.log(logits_NV[rows]).clamp_(min=LOG_0)
            weights_CV = torch.zeros_like(entropy_N[rows, None])
            if for_logprobs_N is not None:
                weights_CV = weights_CV - for_logprobs_N[rows, None]
            if for_entropy_N is not None:
                surprise_CV = log_p_CV + entropy_N[rows, None]
                weights_CV = weights_CV - for_entropy_N[rows, None] * surprise_CV
            if for_kl_N is not None and ref_logits_NV is not None:
                log_q_CV = softmax.log(ref_logits_NV[rows]).clamp_(min=LOG_0)
                excess_CV = log_p_CV - log_q_CV - kl_N[rows, None].clamp(max=-LOG_0)
                weights_CV = weights_CV + for_kl_N[rows, None] * excess_CV
            gradient_CV = log_p_CV.exp_().mul_(weights_CV)
            if for_logprobs_N is not None:
                gradient_CV.scatter_add_(-1, targets_N[rows, None], for_logprobs_N[rows, None])
            gradient_CV = softmax.pull_back(gradient_CV, logits_NV[rows])
            logits_NV[rows, : softmax.num_token_ids] = gradient_CV.to(logits_NV.dtype)
            logits_NV[rows, softmax.num_token_ids :] = 0
        return logits_NV, None, None, None, None


def chunk_rows(vocabulary: int, device: torch.device) -> int:
    return max(1, CHUNK_LOGITS[device.type] // vocabulary)


def _chunks(logits_NV: torch.Tensor) -> list[slice]:
    size = chunk_rows(logits_NV.shape[1], logits_NV.device)
    return [slice(i, i + size) for i in range(0, len(logits_NV), size)]
