// rho1b_math_vineppo with K = 3.
(import 'rho1b_math_vineppo.jsonnet') + {
  name: 'rho1b_math_vineppo_k3',
  credit+: { num_continuations: 3 },
}
