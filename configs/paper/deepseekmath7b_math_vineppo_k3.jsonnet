// deepseekmath7b_math_vineppo with K = 3.
(import 'deepseekmath7b_math_vineppo.jsonnet') + {
  name: 'deepseekmath7b_math_vineppo_k3',
  credit+: { num_continuations: 3 },
}
