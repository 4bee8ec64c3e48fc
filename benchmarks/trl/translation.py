"""Our config for TRL's side: arguments of `GRPOConfig`, prompts, and what else the workers need."""

from pathlib import Path
from typing import Any

import torch

from vineppo.config.load import to_dict
from vineppo.config.schema import ChatPrompt, Prompt, TrainConfig
from vineppo.credit.groups import GrpoCredit
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.models import LoadedModel, load_model
from vineppo.tasks import load_task


def describe(config: TrainConfig, num_iterations: int, folder: Path) -> dict[str, Any]:
    """All that the workers need to know, as JSON; they take the task's first problems in order.

    Raises `UserError` for a config that TRL has no like of.
    """
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    count = num_iterations * config.rollouts.num_prompts
    prompts_P = encode_problems(config, loaded, load_task(config.task).train_P[:count])
    assert len(prompts_P) == count, f"the task must have {count} problems, got {len(prompts_P)}"
    return {
        "config": to_dict(config),
        "arguments": grpo_arguments(config),
        "prompts": [
            {
                "id": prompt.problem.id,
                "question": prompt.problem.question,
                "answer": prompt.problem.answer,
                "token_ids": prompt.token_ids,
                "prompt": trl_prompt(config.task.prompt, prompt.problem.question),
            }
            for prompt in prompts_P
        ],
        "model": model_directory(loaded, folder),
        "num_iterations": num_iterations,
        "num_updates": num_updates(config),
        "max_model_len": config.engine.max_model_len,
        "has_gpu": torch.cuda.is_available(),
    }


def grpo_arguments(config: TrainConfig) -> dict[str, Any]:
    """What decides an iteration's work and result. TRL calls an epoch an iteration (μ).

    P·G responses are sampled, and each of `num_epochs` epochs cuts them into P·G/batch_size
    updates: 32 prompts × 8 samples with batches of 64 and 2 epochs make 8 updates, of
    `steps_per_generation` = 4 micro-batches of 64 an epoch. TRL always samples whole micro-batches,
    so sizes that do not divide each other raise `UserError`, as does what TRL has no like of. Its
    updates are of shuffled responses, whatever `optimization.shuffle` has for ours.
    """
    credit, optimization, reference = config.credit, config.optimization, config.reference
    _require(isinstance(credit, GrpoCredit), "credit.kind must be grpo")
    assert isinstance(credit, GrpoCredit)
    sequences = config.rollouts.num_prompts * config.rollouts.num_samples
    _require(
        sequences % optimization.batch_size == 0
        and optimization.batch_size % optimization.micro_batch_size == 0,
        "rollouts must be a multiple of optimization.batch_size, and that of micro_batch_size",
    )
    _require(
        optimization.loss_aggregation == "sequence_mean"
        and reference.kl_aggregation == "sequence_mean"
        and not optimization.whiten_advantages
        and optimization.schedule == "constant"
        and optimization.warmup_fraction == 0,
        "the loss must be a mean of sequences' means, unwhitened, at a constant rate",
    )
    _require(
        optimization.policy_loss == "ppo"
        and optimization.resampling is None
        and not optimization.mask_equal_rewards,
        "the policy's loss must be PPO's, over all rollouts",
    )
    _require(
        (reference.kl_in, reference.kl_estimator, reference.path) == ("loss", "k3", None),
        "the KL must be k3 to the starting policy, in the loss",
    )
    prompt, sampling = config.task.prompt, config.sampling
    options = prompt.response_prefix, getattr(prompt, "chat_template_kwargs", None)
    _require(
        not any((sampling.top_k, sampling.min_p, *options)),
        "sampling.top_k, min_p and the prompt's options must be the defaults",
    )
    return {
        "num_generations": config.rollouts.num_samples,
        "max_completion_length": config.sampling.max_tokens,
        "temperature": config.sampling.temperature,
        "top_p": config.sampling.top_p,
        "per_device_train_batch_size": optimization.micro_batch_size,
        "gradient_accumulation_steps": optimization.batch_size // optimization.micro_batch_size,
        "steps_per_generation": sequences // optimization.micro_batch_size,
        "num_iterations": optimization.num_epochs,
        "learning_rate": optimization.learning_rate,
        "lr_scheduler_type": "constant",
        "adam_beta1": optimization.adam_beta1,
        "adam_beta2": optimization.adam_beta2,
        "adam_epsilon": optimization.adam_eps,
        "weight_decay": optimization.weight_decay,
        "max_grad_norm": optimization.max_grad_norm,
        "loss_type": "grpo",
        "scale_rewards": "group" if credit.normalize_std else "none",
        "epsilon": optimization.clip_low,
        "epsilon_high": optimization.clip_high,
        "beta": reference.kl_coef,
        "use_bias_correction_kl": reference.kl_importance,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        # Half precision in the passes over weights that are kept in float32, as ZeRO does for us.
        "bf16": config.model.dtype == "bfloat16",
        "seed": config.seed,
    }


def num_updates(config: TrainConfig) -> int:
    """Optimizer steps of an iteration."""
    sequences = config.rollouts.num_prompts * config.rollouts.num_samples
    return config.optimization.num_epochs * sequences // config.optimization.batch_size


def trl_prompt(prompt: Prompt, question: str) -> str | list[dict[str, str]]:
    """The prompt as TRL takes it: a text, or the messages of a chat."""
    text = prompt.template.replace("{question}", question)
    if not isinstance(prompt, ChatPrompt):
        return text
    system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    return [*system, {"role": "user", "content": text}]


def model_directory(loaded: LoadedModel, folder: Path) -> str:
    """Where TRL finds the model: it needs the architecture's name, which not every config has."""
    from transformers import AutoConfig

    path = loaded.engine_model.path
    if AutoConfig.from_pretrained(path).architectures:
        return path
    directory = folder / "model"
    loaded.model.save_pretrained(directory)
    loaded.tokenizer.save_pretrained(directory)
    return str(directory)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise UserError(f"to compare with TRL, {what}")
