"""A critic's start with twice the policy's layers, which computes what the policy does.

    python experiments/12_causes/deepen.py OUT

After each layer stands a copy of it whose outputs are zero until they have learned (Net2Net:
Chen et al., 2016, arXiv:1511.05641).
"""

import copy
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from vineppo.models import resolve_model_path

if __name__ == "__main__":
    path = resolve_model_path("embedded:credit_short")
    model = AutoModelForCausalLM.from_pretrained(path)
    layers = model.model.layers
    doubled = [twin for layer in layers for twin in (layer, copy.deepcopy(layer))]
    for number, layer in enumerate(doubled):
        layer.self_attn.layer_idx = number
        if number % 2:
            for output in (layer.self_attn.o_proj, layer.mlp.down_proj):
                torch.nn.init.zeros_(output.weight)
    model.model.layers = torch.nn.ModuleList(doubled)
    model.config.num_hidden_layers = len(doubled)
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:1] * len(doubled)
    model.save_pretrained(sys.argv[1])
    AutoTokenizer.from_pretrained(path).save_pretrained(sys.argv[1])
