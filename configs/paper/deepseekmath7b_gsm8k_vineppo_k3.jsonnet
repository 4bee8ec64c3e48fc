// deepseekmath7b_gsm8k_vineppo with K = 3.
(import 'deepseekmath7b_gsm8k_vineppo.jsonnet') + {
  name: 'deepseekmath7b_gsm8k_vineppo_k3',
  credit+: { num_continuations: 3 },
}
