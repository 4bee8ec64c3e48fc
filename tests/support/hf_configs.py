"""HF configs of models as their authors published them, the values that shapes follow from."""

from typing import Any


def llama(**values: Any) -> dict[str, Any]:
    return {"model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": False, **values}


RHO_1B = llama(  # microsoft/rho-math-1b-v0.1, which continues TinyLlama-1.1B
    hidden_size=2048,
    intermediate_size=5632,
    num_hidden_layers=22,
    num_attention_heads=32,
    num_key_value_heads=4,
    vocab_size=32000,
    max_position_embeddings=2048,
)
DEEPSEEKMATH_7B = llama(  # deepseek-ai/deepseek-math-7b-base
    hidden_size=4096,
    intermediate_size=11008,
    num_hidden_layers=30,
    num_attention_heads=32,
    num_key_value_heads=32,
    vocab_size=102400,
    max_position_embeddings=4096,
)
QWEN_05B = {  # Qwen/Qwen2.5-0.5B
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
QWEN_7B = {  # Qwen/Qwen2.5-7B
    **QWEN_05B,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
