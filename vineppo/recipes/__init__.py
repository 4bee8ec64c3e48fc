"""Plug-ins beyond the core, a file each, by the interfaces that a user's own file has."""

# The short names of each role: module:Class (`vineppo/plugins.py`).
KINDS = {
    "task": {
        "arithmetic": "vineppo.recipes.arithmetic:ArithmeticTask",
        "svamp": "vineppo.recipes.evaluation_sets:SvampTask",
        "olympiadbench": "vineppo.recipes.evaluation_sets:OlympiadBenchTask",
        "countdown": "vineppo.recipes.countdown:CountdownTask",
        "jsonl": "vineppo.recipes.jsonl:JsonlTask",
        "reasoning_gym": "vineppo.recipes.gym:GymTask",
        "worded": "vineppo.recipes.worded:WordedTask",
        "verifiers": "vineppo.recipes.verifiers:VerifiersTask",
    },
    "environment": {
        "drill": "vineppo.recipes.drill:Drill",
        "verifiers": "vineppo.recipes.verifiers:VerifiersEnvironment",
    },
    "reward_form": {
        "any": "vineppo.recipes.reward_forms:AnyForm",
    },
    "scorer": {
        "reward_model": "vineppo.recipes.reward_scorer:RewardModelReward",
    },
    "fine_tuning": {
        "self_training": "vineppo.recipes.self_training:SelfTraining",
    },
    "adapters": {
        "lora": "vineppo.recipes.lora:Lora",
    },
    "credit": {
        "reinforce_plus_plus": "vineppo.recipes.reinforce_plus_plus:ReinforcePlusPlusCredit",
        "reinforce_plus_plus_baseline": (
            "vineppo.recipes.reinforce_plus_plus:ReinforcePlusPlusBaselineCredit"
        ),
        "remax": "vineppo.recipes.remax:RemaxCredit",
        "doubly_robust": "vineppo.recipes.doubly_robust:DoublyRobustCredit",
        "gae_bootstrapped": "vineppo.recipes.gae_bootstrapped:BootstrappedGae",
        "gigpo": "vineppo.recipes.gigpo:GigpoCredit",
        "joined": "vineppo.recipes.joined:JoinedCredit",
        "martingale": "vineppo.recipes.martingale:MartingaleCredit",
        "tree": "vineppo.recipes.tree:TreeCredit",
    },
    "engine": {
        "transformers": "vineppo.recipes.transformers_engine:TransformersConfig",
        "vllm_processes": "vineppo.recipes.engine_processes:ProcessesConfig",
        "vllm_sharded": "vineppo.recipes.vllm_sharded:ShardedConfig",
    },
    "segmenter": {
        "cutpoints": "vineppo.recipes.cutpoints:CutpointsSegmenter",
        "merged": "vineppo.recipes.merged:MergedSegmenter",
    },
    "values": {
        "shared": "vineppo.recipes.shared:SharedValueHead",
        "informed": "vineppo.recipes.informed:Informed",
        "ensemble": "vineppo.recipes.ensemble:Ensemble",
        "fused": "vineppo.recipes.fused:Fused",
        "generative": "vineppo.recipes.generated:Generative",
        "hl_gauss": "vineppo.recipes.hl_gauss:HlGauss",
        "log_ratio": "vineppo.recipes.log_ratio:LogRatio",
        "oracle": "vineppo.recipes.oracle:Oracle",
        "pooled": "vineppo.recipes.pooled:Pooled",
        "posterior": "vineppo.recipes.posterior:Posterior",
        "privileged": "vineppo.recipes.privileged:Privileged",
        "probe": "vineppo.recipes.probe:Probe",
        "reward_model": "vineppo.recipes.reward_model:ScoredStates",
        "shrunk": "vineppo.recipes.shrunk:Shrunk",
        "shrunk_mean": "vineppo.recipes.shrunk_mean:ShrunkMean",
        "smoothed": "vineppo.recipes.smoothed:Smoothed",
        "yes_no": "vineppo.recipes.yes_no:YesNo",
    },
    "states": {
        "coin": "vineppo.recipes.cuts:CoinCuts",
        "expected": "vineppo.recipes.cuts:ExpectedCuts",
        "random": "vineppo.recipes.cuts:Cuts",
        "surprisal": "vineppo.recipes.cuts:Cuts",
        "uncertain": "vineppo.recipes.cuts:Cuts",
    },
}

# The functions that `optimization.policy_loss` names besides PPO's: module, function.
POLICY_LOSSES = {
    "gspo": ("vineppo.recipes.policy_losses", "sequence_surrogate"),
    "cispo": ("vineppo.recipes.policy_losses", "weighted_likelihood"),
}
# The function behind `optimization.resampling`.
RESAMPLED = ("vineppo.recipes.policy_losses", "resampled")
