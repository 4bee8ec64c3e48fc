// GRPO of any causal LM on the word problems of the other benchmarks, on one GPU.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local base = import '../configs/model.jsonnet';

algorithm.grpo + base + {
  name: 'benchmark_trl_model',
  local grpo = algorithm.grpo + { model: $.model },
  credit: grpo.credit,
  reference: grpo.reference,
  model+: { gradient_checkpointing: false },
  optimization+: grpo.optimization + { warmup_fraction: 0 },
}
