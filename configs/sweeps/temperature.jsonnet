// Which training temperatures VinePPO and PPO bear: `vineppo sweep configs/sweeps/temperature.jsonnet`
// (an hour of two cores, two runs at a time), then experiments/06_temperature/temperature.py.
local setting = 'demo';  // 'long': chains of 9 to 12 operations, twice the time
local temperatures = [0.4, 0.6, 0.8, 1, 1.2];

{
  runs: [
    {
      name: '%s_%s_t%g' % [setting, method, temperature],
      seed: seed,
      config: '../%s_%s.jsonnet' % [setting, method],
      set: {
        'sampling.temperature': temperature,
        'evaluation.every': 4,
        'logging.wandb_project': null,
        [if setting == 'long' then 'num_iterations']: 12,
      },
    }
    for method in ['vineppo', 'ppo']
    for temperature in temperatures
    for seed in [1, 2, 3]
  ],
  // While training all are evaluated at the setting's temperature, 1; the last policies also here.
  evaluations: [
    { 'evaluation.temperature': temperature }
    for temperature in temperatures
    if temperature != 1
  ],
}
