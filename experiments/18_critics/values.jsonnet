// Every kind of learned value on a policy that stands still, from the same rewards: 512 rollouts an
// iteration. run.sh sets the rates that sweep.csv chose where they are others.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local recipes = import '../../configs/lib/recipes.libsonnet';
local view = (import '../../configs/lib/view.libsonnet').symbols;
local ppo = import '../../configs/credit_short_ppo.jsonnet';
local probability = { loss: { kind: 'cross_entropy', low: 0, high: 1 } };
local choices(model) = algorithm[model].values.predictors;

ppo + {
  local critic = self.critic { warmup_iterations: 0, head_init: 'zero' },
  local bounded = critic + probability,
  local told(name) = bounded + view[name],
  name: 'critics',
  num_iterations: 6,
  rollouts: { num_prompts: 64, num_samples: 8 },
  // The paper's: a random head, a squared error with a clip.
  critic+: { warmup_iterations: 6, head_init: 'normal' },
  values+: {
    predictors: choices('vine_martingale') + choices('vine_privileged') + {
      posterior+: { num_steps: 64 },
      privileged+: { num_steps: 64 },
      oracle: { kind: 'oracle', half_life: 5 },
      group: { kind: 'group_mean' },
      zero_head: critic,
      bounded: bounded,
      bigger: bounded { path: 'runs/deep_critic' },
      ensemble: bounded { kind: 'ensemble', num: 2, agreed: 0, disputed: 0 },
      answer: told('answer_prefix'),
      siblings: told('rollout_context'),
      asked: critic + algorithm.yes_no { question: '?', yes: '1', no: '0' },
      judge: critic + algorithm.yes_no { question: '?', yes: '1', no: '0', trained: true },
      fused: { kind: 'fused', prior: 'judge' },
      probe: recipes.poise.values.predictors.probe { crossed: false },
    },
  },
  evaluation+: { every: 0 },
  checkpoint: { every: 2, keep: 3 },
  logging+: { wandb_project: null },
}
