// The published iteration's work: 64 x 8 rollouts, K = 9, on what rho_shape.py has made.
local hardware = import '../../configs/lib/hardware.libsonnet';
local task = import '../../configs/lib/task.libsonnet';
local here = 'runs/09_rho';

(import '../../configs/paper/rho1b_math_vineppo.jsonnet') + hardware.many_cores + {
  name: 'rho_shape',
  num_iterations: 1,
  model+: { path: here + '/model' },
  task: task.jsonl(here + '/train.jsonl', here + '/test.jsonl') + {
    prompt: { kind: 'template', template: '{question}' },
    num_test_problems: 1,
    solution_field: null,
  },
  credit+: { segmenter: { kind: 'lines' } },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
  logging+: { wandb_project: null },
}
