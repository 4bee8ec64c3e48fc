// GRPO on the work of rho_shape.jsonnet.
local hardware = import '../../configs/lib/hardware.libsonnet';
local vineppo = import 'rho_shape.jsonnet';
local shared = ['num_iterations', 'model', 'task', 'evaluation', 'checkpoint', 'logging'];

(import '../../configs/paper/rho1b_math_grpo.jsonnet') + hardware.many_cores + { [key]: vineppo[key] for key in shared } + {
  name: 'rho_shape_grpo',
  credit+: { segmenter: vineppo.credit.segmenter },
}
