// demo_grpo with GSPO's loss; the other pieces of lib/loss.libsonnet go over any leaf in the same way.
local loss = import '../lib/loss.libsonnet';

(import '../demo_grpo.jsonnet') + loss.gspo + { name: 'policy_losses' }
