// The demo's PPO without vLLM.
local hardware = import 'lib/hardware.libsonnet';

(import 'demo_ppo.jsonnet') + hardware.without_vllm + { name: 'demo_ppo_transformers' }
