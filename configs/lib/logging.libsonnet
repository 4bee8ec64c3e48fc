// Evaluation, checkpoints and logs.
{
  evaluation: { every: 10, num_samples: 16, temperature: 0.35, top_p: 0.9 },
  checkpoint: { every: 10, keep: 2 },
  logging: { wandb_project: 'vineppo' },
}
