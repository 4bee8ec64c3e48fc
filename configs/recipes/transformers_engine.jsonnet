// Where vLLM is not installed, or to check what it samples: the demo's VinePPO without vLLM.
local hardware = import '../lib/hardware.libsonnet';

(import '../demo_vineppo.jsonnet') + hardware.without_vllm + { name: 'transformers_engine' }
