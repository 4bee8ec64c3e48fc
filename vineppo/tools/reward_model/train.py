"""Reward models: scores of whole responses, learned from preference pairs (Bradley–Terry)."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch.nn.functional import logsigmoid

from vineppo.batching import collate, grouped_minibatches, is_sound, ranks_share, rate_of, summarize
from vineppo.checkpoint import write_whole
from vineppo.distributed import init_distributed, is_main, num_ranks, rank
from vineppo.metrics import calibration_error, mean_std
from vineppo.models import load_tokenizer
from vineppo.policy import DeepSpeedModule, Summand, checkpoint_activations, save_model
from vineppo.progress import log_to
from vineppo.recipes.reward_scorer import SCORED, SequenceScores, scored_sequence
from vineppo.session import BareSession, is_finished, open_record, open_run_dir
from vineppo.token_scores import read_sequences
from vineppo.tools.reward_model.config import RewardModelConfig
from vineppo.tools.reward_model.pairs import Pair, load_pairs
from vineppo.types import TokenSequence, TrainBatch, derive_seed
from vineppo.values.heads import HEAD, check_size, load_classifier, set_padding

FOLDER = "reward_model"  # of a checkpoint and of `final`
HEADLINE = ("pair_accuracy", "pair_log_loss", "pair_calibration_error")


def train_reward_model(config: RewardModelConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`; an iteration is one update."""
    if is_finished(config, directory):
        return
    tokenizer = load_tokenizer(config.model.path, "model.path")
    train, test = load_pairs(config, tokenizer)
    model = load_classifier(
        config.model.path, config.model, config.head_init, config.seed, "model.path"
    )
    num_ids = max(tokenizer.get_vocab().values()) + 1
    limit = "optimization.max_tokens"
    check_size(model, num_ids, config.optimization.max_tokens, "model.path", limit)
    run = open_run_dir(config, directory)
    batch_size = config.optimization.batch_size
    updates_per_epoch = math.ceil(len(train) / batch_size)
    num_updates = config.optimization.num_epochs * updates_per_epoch

    with ExitStack() as stack:
        if is_main():
            stack.enter_context(log_to(run.path / "train.log"))
        init_distributed()
        reward_model = RewardModel(config, model, tokenizer)
        record = stack.enter_context(open_record(config, num_updates, run, reward_model, 0.0))
        session = BareSession(config, num_updates, run, reward_model, *record)
        stack.enter_context(session.interruptible())
        session.progress.say(f"{len(train)} pairs to train on, {len(test)} to evaluate on")
        if session.state.iteration == 0:
            evaluate_if_due(session, reward_model, test, 0)
            session.progress.restart()
        for iteration in session.iterations():
            epoch, number = divmod(iteration - 1, updates_per_epoch)
            seed = derive_seed(config.seed, "pairs", epoch)
            chosen = grouped_minibatches(range(len(train)), batch_size, seed)[number]
            session.progress.enter("update")
            metrics = reward_model.update([train[i] for i in chosen], iteration - 1, num_updates)
            metrics |= evaluate_if_due(session, reward_model, test, iteration)
            session.finish_iteration(iteration, metrics)
        write_whole(run.final_path, reward_model.save_hf)


def evaluate_if_due(
    session: BareSession, reward_model: "RewardModel", pairs: Sequence[Pair], iteration: int
) -> dict[str, float]:
    """`eval/pair_*` of the pairs that were held out; the whole goes to `evaluations/`."""
    if not session.is_evaluation_due(iteration):
        return {}
    session.progress.enter("evaluate")
    evaluation = pair_evaluation(reward_model.scores(pairs))
    if is_main():
        session.run.write_evaluation(iteration, evaluation)
    return {f"eval/{name}": x for name, x in evaluation.items() if name in HEADLINE}


def pair_evaluation(scores_N2: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Accuracy and calibration of P(chosen ≻ rejected) = σ(r_chosen − r_rejected).

    A tie is half right. The confidence in the preferred side is σ(|lead|). Scores (log 3, 0) and
    (0, log 9): accuracy ½, log loss −(log 0.75 + log 0.1)/2 = 1.295, confidences 0.75 and 0.9,
    calibration error |0.75 − 1|/2 + |0.9 − 0|/2 = 0.575.
    """
    leads_N = [chosen - rejected for chosen, rejected in scores_N2]
    right_N = [float(lead > 0) + 0.5 * (lead == 0) for lead in leads_N]
    confidence_N = [1.0 / (1.0 + math.exp(-abs(lead))) for lead in leads_N]
    return {
        "pair_accuracy": fmean(right_N),
        "pair_accuracy_stderr": mean_std(right_N)[1] / math.sqrt(max(len(right_N) - 1, 1)),
        "pair_log_loss": fmean(max(-x, 0.0) + math.log1p(math.exp(-abs(x))) for x in leads_N),
        "pair_calibration_error": calibration_error(confidence_N, right_N),
        "num_pairs": len(leads_N),
        "scores_std": mean_std([score for pair in scores_N2 for score in pair])[1],
    }


class RewardModel:
    """A classifier of one label that trains on pairs (Ouyang et al. 2022, arXiv:2203.02155)."""

    def __init__(self, config: RewardModelConfig, model: Any, tokenizer: Any) -> None:
        self._optimization = config.optimization
        self._model, self._tokenizer = model, tokenizer
        set_padding(model, tokenizer)
        for name in ("value_range", "value_offset"):  # of a critic; a score has neither
            if hasattr(model.config, name):
                delattr(model.config, name)
        model.score.offset.fill_(0.0)
        checkpoint_activations(model, config.model.gradient_checkpointing)
        module = SequenceScores(model)
        weights = [list(model.parameters())]
        self._deepspeed = DeepSpeedModule(module, weights, model.dtype, config.optimization)

    def update(self, pairs: Sequence[Pair], update: int, num_updates: int) -> dict[str, float]:
        """One update on the mean loss of the pairs; `reward_model/*`."""
        rate = rate_of(self._optimization, update, num_updates)
        # A pair stays in one micro-batch; its rows are in turn chosen and rejected.
        lengths, size = [len(pair) for pair in pairs], self._optimization.micro_batch_size
        batches = [
            collate(
                [side for i in share for side in self._sides(pairs[i])],
                self._deepspeed.device,
                (SCORED,),
            )
            for share in ranks_share(lengths, size, rank(), num_ranks())
        ]
        done = self._deepspeed.update(
            batches,
            lambda batch: pair_objective(len(pairs), self._deepspeed(batch)),
            [rate],
            partial(is_sound, None),
        )
        numbers = ("loss", "accuracy")
        return summarize([done], "reward_model", numbers, rate) | {"reward_model/pairs": len(pairs)}

    def scores(self, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        """(r_chosen, r_rejected) of every pair."""
        sides = [side for pair in pairs for side in self._sides(pair)]

        def read(batch: TrainBatch, _: Sequence[TokenSequence]) -> list[float]:
            scores_B: list[float] = self._deepspeed(batch).tolist()
            return scores_B

        size = 2 * self._optimization.micro_batch_size
        found = read_sequences(read, sides, size, self._deepspeed.device, columns=(SCORED,))
        return list(zip(found[::2], found[1::2], strict=True))

    def _sides(self, pair: Pair) -> list[TokenSequence]:
        pad_id = self._model.config.pad_token_id
        return [scored_sequence(*side, pad_id) for side in (pair.chosen, pair.rejected)]

    def save_hf(self, directory: Path) -> None:
        """As AutoModelForSequenceClassification reads it, with one label."""
        weights = self._deepspeed.named_weights(self._model)
        target = directory / FOLDER
        save_model(self._model, self._tokenizer, weights, target, left_out=f"{HEAD}.offset")

    def save_state(self, directory: Path) -> None:
        self._deepspeed.save_state(directory / FOLDER)

    def load_state(self, directory: Path) -> None:
        self._deepspeed.load_state(directory / FOLDER)


def pair_objective(num_pairs: int, scores_B: torch.Tensor) -> Summand:
    """A micro-batch's part of the mean loss over the `num_pairs` pairs of an update.

    A pair's loss is −log σ(r_chosen − r_rejected), the negative log-likelihood of the preference:
    Bradley & Terry 1952; Ouyang et al. 2022 (arXiv:2203.02155, eq. 1). A lead of log 3: −log(3/4) =
    0.288.
    """
    num_here = len(scores_B) // 2  # 0 on a rank without a pair, which has one row of padding
    rows_N2 = scores_B[: 2 * num_here].view(num_here, 2)
    leads_N = rows_N2[:, 0] - rows_N2[:, 1]
    total = -logsigmoid(leads_N).sum() / num_pairs
    right = (leads_N > 0).sum() + 0.5 * (leads_N == 0).sum()
    return total, {"loss": total, "accuracy": right / num_pairs}
