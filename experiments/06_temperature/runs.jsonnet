// Which training temperatures VinePPO and PPO bear on the demo: an hour of two cores, two runs at a time.
local temperatures = [0.4, 0.6, 0.8, 1, 1.2];

{
  runs: [
    {
      name: 'demo_%s_t%g' % [method, temperature],
      seed: seed,
      config: '../../configs/demo_%s.jsonnet' % method,
      set: {
        'sampling.temperature': temperature,
        'evaluation.every': 4,
        'logging.wandb_project': null,
      },
    }
    for method in ['vineppo', 'ppo']
    for temperature in temperatures
    for seed in [1, 2, 3]
  ],
  // While training all are evaluated at the demo's temperature, 1; the last policies also here.
  evaluations: [
    { 'evaluation.temperature': temperature }
    for temperature in temperatures
    if temperature != 1
  ],
}
