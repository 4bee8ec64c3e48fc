"""Random models of other architectures than the embedded policy's, with its vocabulary."""

from typing import Any

import torch


def random_model(config_name: str, **changes: Any) -> Any:
    """A causal LM in evaluation mode: 3 layers 32 wide, of 4 heads with 2 of keys and values."""
    import transformers

    torch.manual_seed(0)
    sizes = {
        "vocab_size": 21, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "initializer_range": 0.4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    config = getattr(transformers, config_name)(**{**sizes, **changes})
    return transformers.AutoModelForCausalLM.from_config(config).eval()
