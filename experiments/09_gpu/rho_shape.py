"""A model of RhoMath-1.1B's shape with random weights, and prompts: an iteration's work without a download.

    python rho_shape.py DIR [--layers 22 --hidden 2048 --inner 5632 --heads 32 --kv 4]

Random weights sample nearly uniformly, so lengths are the vocabulary's: of its 32,000 ids 1/256 end a
response (mean length 256, geometric) and 1/32 end a line (8 steps a response of mean length).
DIR/model, DIR/train.jsonl, DIR/test.jsonl, DIR/rho_shape.jsonnet. Nothing is ever right.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY, MEAN_LENGTH, MEAN_STEP = 32_000, 256, 32

CONFIG = """
(import '%s/configs/paper/rho1b_math_vineppo.jsonnet') + {
  name: 'rho_shape',
  num_iterations: 3,
  model+: { path: '%s/model' },
  task: {
    kind: 'jsonl', train_path: '%s/train.jsonl', test_path: '%s/test.jsonl', num_test_problems: 8,
    question_field: 'question', answer_field: 'answer', solution_field: null, id_field: null,
    prompt: { kind: 'template', template: '{question}' }, too_long: 'leave_out', response_template: '{solution}',
    grading: { extraction: 'boxed', reward_path: null, num_workers: 2, time_limit_s: 10, truncated_reward: 0, num_matching: null },
    environment: null,
  },
  credit+: { segmenter: { kind: 'lines' } },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
  logging+: { wandb_project: null },
}
"""


def tokenizer():
    names = []
    for i in range(VOCABULARY):
        if i < 3:
            names.append(["<unk>", "<s>", "</s>"][i])
        elif i % MEAN_STEP == 0:
            names.append(f" w{i}\n")
        else:
            names.append(f" w{i}")
    backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r" \S+\n?"), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    for name, value in {"layers": 22, "hidden": 2048, "inner": 5632, "heads": 32, "kv": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repo", type=Path, default=Path.cwd())
    options = parser.parse_args()
    directory = options.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=options.hidden, intermediate_size=options.inner,
        num_hidden_layers=options.layers, num_attention_heads=options.heads, num_key_value_heads=options.kv,
        max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=None,
    )  # fmt: skip
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    ends = [2, *range(5, VOCABULARY, MEAN_LENGTH)]  # 5 + 256 j is never a multiple of 32
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=ends)
    model.cpu().save_pretrained(directory / "model")
    tokenizer().save_pretrained(directory / "model")
    words = random.Random(0)
    for name, count in (("train", 512), ("test", 8)):
        rows = [
            {"question": "".join(f" w{3 + 32 * words.randrange(900)}" for _ in range(100)), "answer": str(i)}
            for i in range(count)
        ]
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    d = str(directory)
    (directory / "rho_shape.jsonnet").write_text(CONFIG % (options.repo.resolve(), d, d, d))
    print(directory, sum(p.numel() for p in model.parameters()), "parameters,", len(ends), "ends")


if __name__ == "__main__":
    main()
