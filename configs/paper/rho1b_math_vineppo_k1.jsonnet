// rho1b_math_vineppo with K = 1.
(import 'rho1b_math_vineppo.jsonnet') + {
  name: 'rho1b_math_vineppo_k1',
  credit+: { num_continuations: 1 },
}
