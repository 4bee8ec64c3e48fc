// Training by privileged values, with the posterior's, PPO's critic and exact values learned and
// measured beside them: all estimators' gradients can be had at its checkpoints, of the same rollouts.
function(setting, privileged, efficient, oracle, ppo) privileged + {
  name: 'credit_%s_noise' % setting,
  critic: ppo.critic,
  values+: { predictors+: efficient.values.predictors + oracle.values.predictors },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
