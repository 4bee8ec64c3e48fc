// Starting policies.
local embedded = { dtype: 'float32', gradient_checkpointing: false };

{
  // Ship with the package; vineppo/assets/README.md names the configs that made them.
  arithmetic_short: embedded { path: 'embedded:arithmetic_short' },
  arithmetic_long: embedded { path: 'embedded:arithmetic_long' },
  credit_short: embedded { path: 'embedded:credit_short' },
  credit_long: embedded { path: 'embedded:credit_long' },
  credit_sheet: embedded { path: 'embedded:credit_sheet' },

  // A new Llama of 0.8 M parameters, one token a character.
  arithmetic_scratch: embedded {
    architecture: {
      hidden_size: 128,
      intermediate_size: 352,
      num_layers: 4,
      num_heads: 4,
      num_key_value_heads: 4,
      max_position_embeddings: 256,
    },
  },

  // Adapters in place of all weights, `model.pretrained(…) + model.adapters`; they bear ten times
  // the learning rate.
  adapters: {
    lora: {
      kind: 'lora',
      rank: 16,
      alpha: 32,
      target_modules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    },
  },

  pretrained(path):: { path: path },
}
