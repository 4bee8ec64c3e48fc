"""Today's architectures from chat prompt to published policy, as tiny random models."""

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.grids import grid
from support.tiny_models import random_model
from support.training import arguments, assert_same_runs, timeless, train, weights
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from vineppo.cli import main
from vineppo.config.schema import ChatPrompt
from vineppo.models import load_model
from vineppo.tasks.prompts import encode_prompt

ROOT = Path(__file__).parents[1]
THINKING = "<think>\n\n</think>\n\n"
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}\n{{ m.content }}<turn>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
PROMPT = ChatPrompt("chat", "{question}", None, {"enable_thinking": False}, THINKING)
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
WINDOW = {"sliding_window": 32, "query_pre_attn_scalar": 32}
LINEAR = {"num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
# The transformers config class of each family, and what is special about it.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3": ("Qwen3Config", {"tie_word_embeddings": True}),
    "Llama 3.2": ("LlamaConfig", {"tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE}),
    "Qwen2": ("Qwen2Config", {}),
    "Gemma 2": ("Gemma2Config", WINDOW),
    "Gemma 3": ("Gemma3TextConfig", WINDOW),
    "SmolLM3": ("SmolLM3Config", {"num_hidden_layers": 4, "rope_theta": 2e6}),
}
REWARD = f"""
def reward(question, answer, response):
    assert response.startswith({THINKING!r})
    return len(response) % 3 / 2
"""
SETTINGS = {
    "task.prompt": json.dumps(vars(PROMPT)),
    "num_iterations": 2,
    "rollouts.num_prompts": 4,
    "rollouts.num_samples": 3,
    "credit.num_continuations": 2,
    "credit.segmenter": json.dumps({"kind": "tokens", "num_tokens": 8}),
    "sampling.max_tokens": 20,
    "sampling.temperature": 0.7,
    "engine.max_num_seqs": 32,
    "optimization.learning_rate": 1e-3,
    "optimization.max_logprob_gap": 1e-3,
    "optimization.batch_size": 6,
    "optimization.micro_batch_size": 3,
    "optimization.logprobs_micro_batch_size": 6,
    "task.num_train_problems": 20,
    "task.num_test_problems": 3,
    "evaluation.every": 1,
    "checkpoint.every": 1,
    "logging.wandb_project": "null",
}


def byte_tokenizer() -> Any:
    """A token a byte, and one that ends a turn beside the end of the text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", "<turn>", *letters])}
    backend = Tokenizer(BPE(ids, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    names = {f"{key}_token": f"<{key}>" for key in ("pad", "bos", "eos")}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, additional_special_tokens=["<turn>"], **names
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def write_model(directory: Path, kind: str, special: dict[str, Any]) -> Any:
    sizes = {
        "vocab_size": 272, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "head_dim": 32, "initializer_range": 0.1,
    }  # fmt: skip
    model = random_model(kind, **{**sizes, **special})
    model.save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    return model


def same_weights(model: Any, expected: dict[str, torch.Tensor]) -> bool:
    found = model.state_dict()
    return all(torch.equal(found[name], weight) for name, weight in expected.items())


def rope_as_4_57(directory: Path) -> dict[str, Any]:
    """The rotary parameters that transformers 4.57 finds, which knows no `rope_parameters`."""
    config = json.loads((directory / "config.json").read_text())
    names = json.loads((directory / "tokenizer_config.json").read_text())
    assert names["tokenizer_class"] != "TokenizersBackend"
    assert not isinstance(names.get("extra_special_tokens"), list)
    assert config["torch_dtype"] == "float32"
    found = {"rope_type": "default", **config.get("rope_scaling", {})}
    return found | {"rope_theta": config["rope_theta"], "local": config.get("rope_local_base_freq")}


@pytest.mark.parametrize(
    ("kind", "special", "line"),
    grid(
        ("Qwen3Config", {"head_dim": 16}, "attention heads must have a size of 32, 64, 80, "),
        ("Gemma2Config", WINDOW, "model.attention must be 'eager' for a model that caps its "),
        # vLLM's code of Qwen3.5 imports torchvision, which the lock for CPUs leaves out.
        slow=[("Qwen3_5TextConfig", LINEAR, r"vLLM cannot serve .*'Qwen3_5ForCausalLM'\] failed")],
    ),
)
def test_what_the_engine_cannot_serve_is_one_line(kind, special, line, tmp_path, capsys):
    if kind.startswith("Qwen3_5") and find_spec("torchvision") is not None:
        pytest.skip("vLLM can import it here")
    write_model(tmp_path / "start", kind, special)
    capsys.readouterr()
    given = arguments(tmp_path / "run", "demo_vineppo", {"model.path": tmp_path / "start"})
    assert main(given) == 2
    error = capsys.readouterr().err
    assert re.search(line, error)
    assert error.count("\n") == 1


@pytest.mark.parametrize("family", grid("Qwen3", "Llama 3.2", slow=list(FAMILIES)[2:]))
def test_a_family_from_a_chat_prompt_to_a_published_policy(family, tmp_path):
    kind, special = FAMILIES[family]
    start, run = tmp_path / "start", tmp_path / "run"
    model = write_model(start, kind, special)
    attention = "eager" if family == "Gemma 2" else "sdpa"  # it caps its attention
    loaded = load_model(str(start), "float32", attention)  # load, encode
    assert same_weights(loaded.model, model.state_dict())
    assert loaded.engine_model.stop_ids == (2, 3)
    said = loaded.tokenizer.decode(encode_prompt(PROMPT, loaded.tokenizer, "1+2?"))
    assert said == f"user\n1+2?<turn>\nassistant\n{THINKING}"

    reward = tmp_path / "reward.py"
    reward.write_text(REWARD)
    settings = {**SETTINGS, "model.path": start, "task.grading.reward_path": reward}
    settings["model.attention"] = attention
    train(run, "demo_vineppo", settings)  # sample, update, sync, gap, save
    first, second = timeless(run)
    assert first["policy/grad_norm"] > 0
    assert 0 < second["rollout/engine_logprob_gap_max"] < 1e-3
    before, after = weights(run, "checkpoints/iter_000001/policy"), weights(run)
    moved = max(float((after[name] - weight).abs().max()) for name, weight in before.items())
    assert moved > 5e-4

    resumed = tmp_path / "resumed"  # as a kill after the first checkpoint would have left it
    shutil.copytree(run, resumed)
    shutil.rmtree(resumed / "final")
    shutil.rmtree(resumed / "checkpoints/iter_000002")
    assert "resumed after iteration 1" in train(resumed, "demo_vineppo", settings)
    assert_same_runs(resumed, run)

    public = tmp_path / "public"
    assert main(["push", str(run), "--to", str(public)]) == 0
    pushed = load_model(str(public), "float32", attention)
    assert same_weights(pushed.model, after)
    assert pushed.engine_model.stop_ids == (2, 3)
    rope = loaded.model.config.rope_parameters
    local = rope.get("sliding_attention", {}).get("rope_theta")
    expected = rope.get("full_attention", rope) | {"local": local}
    assert {**expected, **rope_as_4_57(public)} == expected


def test_the_page_has_every_family():
    page = (ROOT / "docs/configuration.md").read_text()
    table = page.partition("| architecture |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", table, re.MULTILINE))
    served = [name for name, cells in rows.items() if set(cells) <= set("✓| ")]
    assert (served, list(rows)) == (list(FAMILIES), [*FAMILIES, "Qwen3.5"])
