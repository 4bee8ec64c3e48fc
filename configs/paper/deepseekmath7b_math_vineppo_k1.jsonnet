// deepseekmath7b_math_vineppo with K = 1.
(import 'deepseekmath7b_math_vineppo.jsonnet') + {
  name: 'deepseekmath7b_math_vineppo_k1',
  credit+: { num_continuations: 1 },
}
