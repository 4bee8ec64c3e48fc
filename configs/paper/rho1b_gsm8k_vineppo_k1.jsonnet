// rho1b_gsm8k_vineppo with K = 1.
(import 'rho1b_gsm8k_vineppo.jsonnet') + {
  name: 'rho1b_gsm8k_vineppo_k1',
  credit+: { num_continuations: 1 },
}
