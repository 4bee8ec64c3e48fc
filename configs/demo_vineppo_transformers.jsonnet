// The demo's VinePPO without vLLM.
local hardware = import 'lib/hardware.libsonnet';

(import 'demo_vineppo.jsonnet') + hardware.without_vllm + { name: 'demo_vineppo_transformers' }
