"""Supervised fine-tuning on demonstrations: the starting policy of reinforcement learning."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from vineppo.batching import grouped_minibatches, micro_batches, rate_of, summarize
from vineppo.checkpoint import Models, write_whole
from vineppo.config.schema import ChatPrompt, LlamaArchitecture, SftConfig, Task
from vineppo.distributed import from_main, is_main
from vineppo.encoding import encode_problems, within
from vineppo.errors import UserError, naming
from vineppo.models import LoadedModel, end_of_turn, load_model, with_adapters
from vineppo.policy import LossFunction, Policy, Summand, Update
from vineppo.run_dir import RunDir
from vineppo.session import Session, is_finished, open_run_dir, open_session
from vineppo.tasks import load_task
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.prompts import encode_prompt, fill
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Problem, TokenSequence, TrainBatch, derive_seed


def sft(config: SftConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`; an iteration is one update."""
    if is_finished(config, directory):
        return
    task = load_task(config.task)
    run, loaded = open_run(config, directory)
    sequences = encode_demonstrations(config, loaded, task.train_P)
    test_P = encode_problems(config, loaded, task.test_P)
    batch_size = config.optimization.batch_size
    updates_per_epoch = math.ceil(len(sequences) / batch_size)
    num_updates = config.optimization.num_epochs * updates_per_epoch

    def start_models() -> Models:
        policy = Policy(loaded, config.optimization, config.model.gradient_checkpointing)
        return Models(policy)

    with open_session(config, num_updates, run, test_P, loaded, start_models) as session:
        session.sampler.engine.sleep()
        for iteration in session.iterations():
            epoch, number = divmod(iteration - 1, updates_per_epoch)
            seed = derive_seed(config.seed, "demonstrations", epoch)
            minibatches = grouped_minibatches(range(len(sequences)), batch_size, seed)
            chosen = [sequences[i] for i in minibatches[number]]
            metrics = update_on(session, config, chosen, iteration - 1, num_updates)
            if session.is_evaluation_due(iteration):
                session.wake_engine(with_new_weights=True)
                metrics |= session.evaluate_if_due(iteration)
                session.sampler.engine.sleep()
            session.finish_iteration(iteration, metrics)


def update_on(
    session: Session,
    config: SftConfig,
    sequences: Sequence[TokenSequence],
    update: int,
    num_updates: int,
) -> dict[str, float]:
    """One update on the mean negative log-likelihood of the demonstrations' tokens."""
    num_tokens = sum(len(sequence.response_ids) for sequence in sequences)
    loss = likelihood_loss(num_tokens)
    done, metrics = update_by(session, config, "sft", loss, sequences, (), update, num_updates)
    total = sum(stats["loss"] for stats in done.stats)
    return metrics | {"sft/loss": total, "sft/tokens": num_tokens}


def update_by(
    session: Session,
    config: SftConfig,
    group: str,
    loss: LossFunction,
    sequences: Sequence[TokenSequence],
    columns: Sequence[str],
    update: int,
    num_updates: int,
) -> tuple[Update, dict[str, float]]:
    """One update by a loss that reads `columns`; gives its gradient's norm, rate and skips too."""
    session.progress.enter("update")
    rate = rate_of(config.optimization, update, num_updates)
    size, device = config.optimization.micro_batch_size, session.policy.device
    batches = micro_batches(sequences, columns, size, device, session.policy.packs)
    options = ForwardOptions(temperature=1.0)
    done = session.policy.update(batches, loss, options, [rate], lambda _: True)
    return done, summarize([done], group, (), rate)


def likelihood_loss(num_tokens: int) -> LossFunction:
    """−(1/num_tokens) Σ log π(token) over response tokens; prompts are masked out."""

    def loss(batch: TrainBatch, scores: TokenScores) -> Summand:
        total = -(scores.logprobs_BT * batch.response_mask_BT).sum() / num_tokens
        return total, {"loss": total}

    return loss


def encode_demonstrations(
    config: SftConfig, loaded: LoadedModel, problems: Sequence[Problem]
) -> list[TokenSequence]:
    """Prompt and demonstration as token ids; `task.too_long` refuses or leaves out long ones."""

    def sequence(problem: Problem) -> TokenSequence:
        if problem.solution is None:
            raise UserError(f"problem {problem.id} has no solution to learn from")
        with naming(f"problem {problem.id}"):
            prompt_ids = encode_prompt(
                config.task.prompt, loaded.tokenizer, problem.question, problem.context
            )
            response_ids = encode_demonstration(config.task, loaded.tokenizer, problem.solution)
        return TokenSequence(prompt_ids, response_ids)

    return within(
        config.optimization.max_tokens,
        "optimization.max_tokens",
        [(p.id, len(both), both) for p in problems for both in [sequence(p)]],
        config.task.too_long,
    )


def encode_demonstration(task: Task, tokenizer: Any, solution: str) -> tuple[int, ...]:
    """Token ids of the response that teaches `solution`, closed by the end-of-sequence token.

    With the response template " {solution}" the solution "1+1=2" gives the ids of " 1+1=2<eos>".
    They continue the ids of `encode_prompt`, so a `response_prefix` is left out. A chat's answer
    ends with the token that closes a turn. Raises UserError for a tokenizer without an end token.
    """
    masked = as_text(tokenizer, solution)
    text = fill(task.response_template, "solution", masked, key="task.response_template")
    end_id = end_of_turn(tokenizer) if isinstance(task.prompt, ChatPrompt) else None
    end_id = tokenizer.eos_token_id if end_id is None else end_id
    if end_id is None:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        raise UserError(f"model.path: tokenizer {name} has no end-of-sequence token")
    ids_T, end = encode(tokenizer, text.removeprefix(task.prompt.response_prefix)), (end_id,)
    return ids_T if ids_T[-1:] == end else ids_T + end


def open_run(config: SftConfig, directory: Path) -> tuple[RunDir, LoadedModel]:
    """The run and the model to fine-tune; a new model is written to `RUN_DIR/initial`."""
    model = config.model
    if model.path is not None:
        loaded = load_model(model.path, model.dtype, model.attention)
        loaded = with_adapters(loaded, model.lora, config.seed)
        return open_run_dir(config, directory), loaded
    assert model.architecture is not None
    run = open_run_dir(config, directory)
    initial = run.path / "initial"
    if not from_main(initial.exists):
        seed = derive_seed(config.seed, "initial weights")
        write_new_model(model.architecture, initial, seed, config.task.build_tokenizer())
    return run, load_model(str(initial), model.dtype, model.attention)


def llama_config(architecture: LlamaArchitecture, tokenizer: Any) -> Any:
    """The HF config of a new Llama with tied embeddings for `tokenizer`."""
    from transformers import LlamaConfig

    sizes = asdict(architecture)
    return LlamaConfig(
        num_hidden_layers=sizes.pop("num_layers"),
        num_attention_heads=sizes.pop("num_heads"),
        **sizes,
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def write_new_model(
    architecture: LlamaArchitecture, directory: Path, seed: int, tokenizer: Any
) -> None:
    """A Llama with tied embeddings, HF's initialisation, and `tokenizer`."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(llama_config(architecture, tokenizer))

    def write(target: Path) -> None:
        if is_main():
            model.save_pretrained(target)
            tokenizer.save_pretrained(target)

    write_whole(directory, write)
