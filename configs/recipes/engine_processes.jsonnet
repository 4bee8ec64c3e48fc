// Where one thread of Python keeps a GPU idle: the demo's VinePPO with two engines of vLLM.
(import '../demo_vineppo.jsonnet') + {
  name: 'engine_processes',
  engine+: { kind: 'vllm_processes', num_processes: 2 },
}
