"""TRL's side of `benchmarks/trl_grpo.py`: `GRPOTrainer.train()`, held before every iteration.

`.venv-trl/bin/python -m benchmarks.trl.run_trl SPEC.json transformers|vllm`, in an environment that
need not hold this project: nothing of it but `protocol` is imported. An
iteration's time begins with the trainer's `on_step_begin` and ends with `on_step_end`. Start-up and
logging are outside, and saving is off.
"""

import json
import re
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.trl.protocol import Channel


def main() -> None:
    channel = Channel()
    warnings.filterwarnings("ignore")  # TRL names the versions of vLLM that it has been tried with
    spec = json.loads(Path(sys.argv[1]).read_text())
    is_vllm = sys.argv[2] == "vllm"
    if is_vllm:
        set_engine_dtype(spec["config"]["engine"]["dtype"])
        if not spec["has_gpu"]:
            repair_sync()
    with TemporaryDirectory(prefix="trl-") as output_dir:
        trainer = build_trainer(spec, is_vllm, output_dir, channel)
        check_prompts(trainer, spec["prompts"])
        with suppress(NothingMoreError):
            trainer.train()


class NothingMoreError(Exception):
    """No further iteration is wanted; nothing else ends `Trainer.train` before a step."""


def build_trainer(spec: dict[str, Any], is_vllm: bool, output_dir: str, channel: Channel) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig

    generation: dict[str, Any]
    if is_vllm:
        generation = {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_max_model_length": spec["max_model_len"],
            "generation_kwargs": {"detokenize": False},
        }
    else:
        generation = {}
    arguments = GRPOConfig(
        output_dir=output_dir,
        use_cpu=not spec["has_gpu"],
        max_steps=spec["num_iterations"] * spec["num_updates"],
        shuffle_dataset=False,
        disable_dropout=True,
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        **spec["arguments"],
        **generation,
    )
    rows = [{"prompt": row["prompt"], "answer": row["answer"]} for row in spec["prompts"]]
    trainer = timed_trainer_class()(
        model=spec["model"],
        reward_funcs=last_number_reward,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
    )
    if is_vllm:
        dtype = trainer.vllm_generation.llm.llm_engine.model_config.dtype
        assert str(dtype) == f"torch.{spec['config']['engine']['dtype']}", dtype
        trainer.time_sync()
    trainer.add_callback(gate(trainer, channel, spec["num_updates"]))
    return trainer


def timed_trainer_class() -> type:
    """`GRPOTrainer` that notes the seconds of its phases."""
    from trl import GRPOTrainer

    class TimedTrainer(GRPOTrainer):
        generation_s = sampling_s = sync_s = 0.0

        def _generate(self, *arguments: Any) -> Any:
            started, self.sync_s = time.perf_counter(), 0.0
            try:
                return super()._generate(*arguments)
            finally:
                self.generation_s = time.perf_counter() - started - self.sync_s

        def _generate_and_score_completions(self, *arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return super()._generate_and_score_completions(*arguments)
            finally:
                self.sampling_s = time.perf_counter() - started

        def time_sync(self) -> None:
            """Times vLLM's new weights, which it takes over at the start of a generation."""
            sync_weights = self.vllm_generation.sync_weights

            def timed() -> None:
                started = time.perf_counter()
                sync_weights()
                self.sync_s = time.perf_counter() - started

            self.vllm_generation.sync_weights = timed

    return TimedTrainer


def gate(trainer: Any, channel: Channel, num_updates: int) -> Any:
    """Waits for the benchmark before an iteration's first update, answers after its last."""
    from transformers import TrainerCallback

    class Gate(TrainerCallback):
        started = 0.0

        def on_step_begin(self, _args: Any, state: Any, _: Any, **__: Any) -> None:
            if state.global_step % num_updates:
                return
            if state.global_step == 0:
                channel.say({"ready": {p: version(p) for p in ("trl", "torch", "transformers")}})
            if not channel.wait():
                raise NothingMoreError
            self.started = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, _: Any, **__: Any) -> None:
            if state.global_step % num_updates:
                return
            seconds = time.perf_counter() - self.started
            metrics = trainer._metrics["train"]
            channel.say(
                {
                    "seconds": seconds,
                    "phases": {
                        "generation": trainer.generation_s,
                        "scoring": trainer.sampling_s - trainer.generation_s - trainer.sync_s,
                        "update": seconds - trainer.sampling_s,
                        "sync": trainer.sync_s,
                    },
                    "tokens": round(
                        metrics["completions/mean_length"][-1] * args.generation_batch_size
                    ),
                    "reward": metrics["reward"][-1],
                    "gap_mean": metrics.get("sampling/sampling_logp_difference/mean", [None])[-1],
                }
            )

    return Gate()


def last_number_reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """1 where the last number of a response is the answer: cheaper than any grader."""
    rewards = []
    for completion, right in zip(completions, answer, strict=True):
        text = completion if isinstance(completion, str) else completion[0]["content"]
        rewards.append(float(re.findall(r"-?\d+", text)[-1:] == [right]))
    return rewards


def check_prompts(trainer: Any, rows: list[dict[str, Any]]) -> None:
    """Both sides must see the same ids; raises `RuntimeError` where TRL's tokenisation differs."""
    token_ids, *_ = trainer._tokenize_prompts([row["prompt"] for row in rows])
    for row, ids in zip(rows, token_ids, strict=True):
        if list(ids) != row["token_ids"]:
            raise RuntimeError(f"TRL reads prompt {row['id']} as {ids}, we {row['token_ids']}")


def set_engine_dtype(dtype: str) -> None:
    """TRL leaves it to vLLM, which runs a float32 model in bfloat16: slow where it is emulated."""
    from functools import partial

    from trl.generation import vllm_generation

    vllm_generation.LLM = partial(vllm_generation.LLM, dtype=dtype)


def repair_sync() -> None:
    """On a CPU vLLM repacks its weights, which have then lost what TRL's `load_weights` calls.

    Reloading takes new weights in place instead, a tied matrix under both of its names; the rest of
    TRL stays as it is.
    """
    from trl.generation.vllm_generation import (
        VLLMGeneration,
    )

    def sync_weights(self: Any) -> None:
        named = self.model.named_parameters(remove_duplicate=False)
        self.llm.collective_rpc(
            "reload_weights",
            kwargs={
                "weights_iterator": ((name, weight.detach()) for name, weight in named),
                "is_checkpoint_format": True,
            },
        )
        self.llm.reset_prefix_cache()

    VLLMGeneration.sync_weights = sync_weights


if __name__ == "__main__":
    main()
