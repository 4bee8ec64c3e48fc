// deepseekmath7b_gsm8k_vineppo with K = 1.
(import 'deepseekmath7b_gsm8k_vineppo.jsonnet') + {
  name: 'deepseekmath7b_gsm8k_vineppo_k1',
  credit+: { num_continuations: 1 },
}
