// Machines: what decides speed and memory, and never the result beyond floating-point noise.
local engine = { kind: 'vllm', max_model_len: error 'engine.max_model_len' };

{
  // A CPU of two cores, models of up to a few million parameters, float32.
  cpu: {
    engine: engine {
      dtype: 'float32',
      block_size: 32,
      max_num_seqs: 512,
      cpu_kv_cache_gib: 1,
      enforce_eager: true,
      sleep_while_training: false,
    },
    optimization+: { micro_batch_size: 64, logprobs_micro_batch_size: 128 },
  },

  // One GPU, models of up to two billion parameters, bfloat16.
  gpu: {
    engine: engine { dtype: 'bfloat16', max_num_seqs: 1024 },
    optimization+: { micro_batch_size: 8, logprobs_micro_batch_size: 32, zero_stage: 2 },
  },

  // Over `gpu` where it has 80 GB and eight cores beside it: one thread of Python keeps such a GPU
  // more than half idle with a model of a billion parameters, and packed passes of 8 are slower than
  // padded ones (experiments/09_gpu).
  many_cores: {
    engine+: { kind: 'vllm_processes', max_num_seqs: 768 },
    optimization+: { micro_batch_size: 32 },
  },

  // Eight GPUs of 80 GB (`torchrun --nproc_per_node 8`), models of about seven billion parameters.
  gpus: {
    engine: engine { dtype: 'bfloat16', gpu_memory_utilization: 0.4 },
    optimization+: { micro_batch_size: 4, logprobs_micro_batch_size: 16, zero_stage: 3 },
  },

  // What one GPU runs, on a CPU, to try a configuration out: `hardware.gpu + hardware.on_cpu`.
  on_cpu: {
    engine+: {
      block_size: 32,
      max_num_seqs: 64,
      max_num_batched_tokens: 4096,
      cpu_kv_cache_gib: 2,
      enforce_eager: true,
      sleep_while_training: false,
    },
    optimization+: { micro_batch_size: 2, logprobs_micro_batch_size: 4, zero_stage: 1 },
  },

  // transformers in place of vLLM, on any of these: `hardware.cpu + hardware.without_vllm`, or over
  // a whole leaf.
  without_vllm: {
    local engine = super.engine,
    engine: {
      kind: 'transformers',
      dtype: engine.dtype,
      max_model_len: engine.max_model_len,
      // Each has the cache of twice max_model_len tokens.
      max_num_seqs: std.min(std.get(engine, 'max_num_seqs', 256), 512),
      [if std.objectHas(engine, 'max_num_batched_tokens') then 'max_num_batched_tokens']: engine.max_num_batched_tokens,
    },
  },

  // The critic's share of the machine: `hardware.cpu + hardware.critic_as_policy`.
  critic_as_policy: {
    local policy = self.optimization,
    critic+: {
      [key]: policy[key]
      for key in ['micro_batch_size', 'zero_stage', 'offload']
      if std.objectHas(policy, key)
    },
  },

  // Supervised fine-tuning has no log-probability pass of its own.
  without_logprobs_pass: { optimization+: { logprobs_micro_batch_size:: null } },

  // Nor does a reward model, which has no engine either.
  without_engine: self.without_logprobs_pass + { engine:: null },
}
