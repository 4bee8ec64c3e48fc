// rho1b_gsm8k_vineppo with K = 3.
(import 'rho1b_gsm8k_vineppo.jsonnet') + {
  name: 'rho1b_gsm8k_vineppo_k3',
  credit+: { num_continuations: 3 },
}
