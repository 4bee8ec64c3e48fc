// Where a model or its cache is too large for one GPU: the demo's VinePPO with an engine that two
// ranks of a machine share (torchrun --nproc_per_node 2).
(import '../demo_vineppo.jsonnet') + {
  name: 'vllm_sharded',
  engine+: { kind: 'vllm_sharded', tensor_parallel_size: 2 },
}
