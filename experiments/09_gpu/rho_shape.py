"""A model of RhoMath-1.1B's shape with random weights, and prompts: its work without a download.

    python experiments/09_gpu/rho_shape.py [--layers 22 --hidden 2048 …] [--step 64]

makes runs/09_rho, on which rho_shape.jsonnet trains. Such weights sample nearly uniformly, so that
the vocabulary decides lengths: 1/256 of the 32,000 ids end a response (256 tokens in the mean,
1,024 at most) and 1/64 end a step. Such lengths forget: 256 tokens are left wherever a step ends.
With 4 steps a response the continuations come to 4.5 million tokens an iteration, as those of MATH
do with 8; with `--step 32` to 9 million. Nothing is ever right.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path("runs/09_rho")
VOCABULARY, MEAN_LENGTH = 32_000, 256
SHAPE = {"layers": 22, "hidden": 2048, "inner": 5632, "heads": 32, "kv-heads": 4}
SPECIAL = ("<unk>", "<s>", "</s>")


def tokenizer(step):
    """Words, of which one in `step` ends a line."""
    words = [f" w{i}" + "\n" * (i % step == 0) for i in range(VOCABULARY)]
    ids = {word: i for i, word in enumerate((*SPECIAL, *words[len(SPECIAL) :]))}
    backend = Tokenizer(models.WordLevel(ids, unk_token=SPECIAL[0]))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r" \S+\n?"), "isolated")
    backend.decoder = decoders.Fuse()
    names = dict(zip(("unk_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, clean_up_tokenization_spaces=False, **names
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {**SHAPE, "step": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=options.hidden,
        intermediate_size=options.inner,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    ends = [2, *range(5, VOCABULARY, MEAN_LENGTH)]  # none of them ends a line
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=ends)
    model.cpu().save_pretrained(HERE / "model")
    tokenizer(options.step).save_pretrained(HERE / "model")
    draw = random.Random(0).randrange
    for name, count in (("train", 512), ("test", 1)):
        questions = ["".join(f" w{3 + 32 * draw(900)}" for _ in range(100)) for _ in range(count)]
        rows = [{"question": text, "answer": str(i)} for i, text in enumerate(questions)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (HERE / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    main()
