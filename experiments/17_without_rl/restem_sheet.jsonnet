// RestEM where a right answer may hold wrong steps: as many sampled tokens as 60 iterations of GRPO there.
local restem = import '../../configs/recipes/self_training.jsonnet';
local model = import '../../configs/lib/model.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

restem + {
  name: 'credit_sheet_restem',
  model: model.credit_sheet { architecture: null },
  task: setting.credit_sheet.task,
  engine+: { max_model_len: 192 },
  sampling: setting.credit_sheet.sampling,
  self_training+: { restart: false },
  optimization+: { max_tokens: 192 },
}
