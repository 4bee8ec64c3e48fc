"""Every combination that makes no sense is refused in one line, before any model loads."""

import json
from pathlib import Path

import pytest
from support.shared_critic import shared_critic

from vineppo.config.load import evaluate_jsonnet, load_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError

VINEPPO, PPO, GRPO = "demo_vineppo", "demo_ppo", "demo_grpo"
TREE, TRANSFORMERS, DRILL = "recipes/tree", "recipes/transformers_engine", "recipes/drill"
CONFIGS = Path(__file__).parents[2] / "configs"
TUNED = evaluate_jsonnet(str(CONFIGS / "demo_ppo.jsonnet"))["critic"]
TRAINER = "optimization.old_logprobs=trainer"
ONE_SAMPLE = ["rollouts.num_samples=1", "rollouts.num_prompts=256"]
NUM_SEQUENCES = "rollouts.num_prompts * rollouts.num_samples"


def table(key, **keys):
    return f"{key}={json.dumps(keys)}"


def entropy(low, high):
    return table("critic.loss", kind="cross_entropy", low=low, high=high)


def group(kind, **keys):
    return table("credit", kind=kind, segmenter={"kind": "lines"}, **keys)


def predictors(**configs):
    return table("values.predictors", **configs)


def some(kind, **keys):
    return table("credit.states", kind=kind, **keys)


def view(template, **rollouts):
    shown = {"num": 3, "max_tokens": 9, "right": "{response}", "wrong": "{response}"} | rollouts
    keys = {"template": template, "rollouts": shown if rollouts else None}
    return "critic.kind=informed", table("critic.view", **keys)


SHARED = table("critic", **shared_critic())
ADAPTIVE = table("reference.kl_control", kind="adaptive", target=1.0, horizon=1000)
TRUNCATED = table("optimization.importance_correction", kind="truncated", max_weight=2.0)
MASKED = table("optimization.importance_correction", kind="masked", min_weight=2.0, max_weight=0.5)
LORA = table("model.lora", kind="lora", rank=4, alpha=8, target_modules=["q_proj"])
TURNS = table("credit.segmenter", kind="turns")
MEAN = [predictors(mean={"kind": "group_mean"}), "values.credit=mean"]
MANY = {"kind": "monte_carlo", "num_continuations": 16}
LEARNS_FROM_MANY = [predictors(drawn=MANY), "critic.learns_from=drawn"]
POSTERIOR = {"kind": "posterior", "num_candidates": 8, "size": 16, "learning_rate": 3e-3,
             "weight_decay": 0.05, "num_steps": 2, "batch_size": 4,
             "replay_iterations": 2}  # fmt: skip
SMOOTHED = {"kind": "smoothed", "of": "monte_carlo", "change": 0.1, "direction": "causal"}
PROBE = {"kind": "probe", "of": "monte_carlo", "features": "both", "size": 8, "learning_rate": 3e-3,
         "weight_decay": 0, "num_steps": 2, "batch_size": 4, "replay_iterations": 2,
         "num_folds": 2, "crossed": False}  # fmt: skip
CROSSED = PROBE | {"crossed": True}

# How the line begins, and the assignments.
REFUSED = {
    VINEPPO: [
        # What an update is laid out like.
        (f"optimization.batch_size must be at most {NUM_SEQUENCES} = 256, got 257",
         "optimization.batch_size=257"),
        ("optimization.micro_batch_size must be at most optimization.batch_size = 64",
         "optimization.micro_batch_size=65"),
        ("optimization.offload must be 'nothing'", "optimization.offload=optimizer"),
        ("optimization.zero_stage must be at most 2", LORA, "optimization.zero_stage=3"),
        # Ratios, and the rollouts that train.
        *(("optimization.old_logprobs must be 'trainer' when sampling.top_p, top_k or", cut)
          for cut in ("sampling.top_p=0.9", "sampling.top_k=9", "sampling.min_p=0.1")),
        ("optimization.old_logprobs must be 'trainer'", TRUNCATED),
        ("optimization.importance_correction must be null when sampling.top_p, top_k or min",
         "sampling.top_k=7", TRAINER, TRUNCATED),
        ("optimization.importance_correction.min_weight and max_weight must enclose 1",
         MASKED, TRAINER),
        ("optimization.dual_clip must be null for optimization.policy_loss 'gspo'",
         "optimization.policy_loss=gspo", "optimization.dual_clip=3"),
        ("optimization.mask_equal_rewards must be true", "optimization.max_redraws=1"),
        *[
            ("rollouts.num_samples must be at least 2", *assignments, *ONE_SAMPLE)
            for assignments in (
                ["optimization.mask_equal_rewards=true"],
                ["optimization.resampling=best_worst"],
                [some("random", cuts=1)],
                [predictors(drawn={"kind": "shrunk", "toward": "siblings"})],
                [predictors(probe=CROSSED | {"of": None})],
            )
        ],
        # Values.
        ("values.predictors must not be named monte_carlo", predictors(critic=SMOOTHED)),
        ("values.predictors.tuned.warmup_iterations must be at most 0",
         predictors(tuned=TUNED | {"warmup_iterations": 1})),
        ("values.predictors.tuned.batch_size must be at most",
         predictors(tuned=TUNED | {"batch_size": 257})),
        ("values.credit must be null or one of the run's predictors (monte_carlo), got mean",
         "values.credit=mean"),
        ("critic.kind must be 'separate' or 'shared', got 'group_mean'",
         'critic={"kind": "group_mean"}'),
        ("credit.states.floor must be at most credit.states.probability = 0.2",
         some("expected", by="entropy", probability=0.2, floor=0.3)),
        ("values.predictors.pool.of must be a predictor of the run that samples continuations "
         "(monte_carlo, many), got mean",
         predictors(pool={"kind": "pooled", "of": "mean"}, mean={"kind": "group_mean"}, many=MANY)),
        ("values.predictors.smooth.of must be a predictor whose states is null",
         predictors(smooth=SMOOTHED), some("random", cuts=1)),
        ("values.predictors.probe.of must be null", predictors(probe=CROSSED)),
        ("values.predictors.probe.of must be a predictor of the run that samples continuations",
         predictors(probe=PROBE | {"of": "sampled"})),
        *[
            (f"values.predictors.x of kind '{options['kind']}' must have room for rewards of 0, 1",
             predictors(x=options), "task.grading.truncated_reward=-1")
            for options in (SMOOTHED, POSTERIOR, PROBE)
        ],
        ("task.grading.reward_path must be null for values.predictors.x of kind 'smoothed'",
         predictors(x=SMOOTHED), "task.grading.reward_path=mine.py"),
        # The reference.
        ("reference.kl_in must be 'loss' for credit.kind 'vine'", "reference.kl_in=reward"),
        ("reference.kl_gradient must be 'k2'", "reference.kl_estimator=k1"),
        ("reference.path must be null, kl_coef 0 and kl_in 'loss'", "reference.kl_estimator=null"),
        ("reference.kl_clamp must be null or", "reference.kl_clamp=[1, 1]"),
        ("reference.kl_clamp must be null or",
         "reference.kl_estimator=k1", "reference.kl_gradient=k2"),
        ("reference.kl_coef must be above 0", ADAPTIVE, "reference.kl_coef=0"),
        (f"{NUM_SEQUENCES} must be at most reference.kl_control.horizon = 255.0, got 256",
         ADAPTIVE.replace("1000", "255")),
        # The task and the engine.
        ("task.prompt.template must contain {question}", "task.prompt.template=x"),
        ("task.response_template must contain {solution}", "task.response_template=x"),
        ("task.min_operations must be at most task.max_operations = 6", "task.min_operations=9"),
        ("task.environment must not be null", TURNS),
        ("task.kind must be 'verifiers'",
         TURNS, table("task.environment", kind="verifiers", max_turn_tokens=4)),
        ("engine.dtype must be model.dtype = 'float32'", "engine.dtype=bfloat16"),
        ("evaluation.num_samples must be 1", "evaluation.temperature=0"),
        ("sampling.max_tokens must be below engine.max_model_len = 128", "sampling.max_tokens=128"),
        ("engine.max_num_seqs must be at most engine.max_num_batched_tokens = 511",
         "engine.max_num_batched_tokens=511"),
        ("engine.max_model_len must be at most engine.max_num_batched_tokens = 127",
         "engine.max_num_batched_tokens=127", "engine.max_num_seqs=64"),
        # Keys of a kind.
        ('unknown key credit.states.probability (credit.states.kind is "random")',
         some("random", probability=0.5)),
        ("credit.states: kind must be one of 'coin', 'expected'", some("all", cuts=1)),
        ("missing key reference.kl_control.target",
         table("reference.kl_control", kind="adaptive", horizon=1000)),
    ],
    PPO: [
        # What a critic sees, and what it learns from.
        ("critic.view.template must contain one of {answer}, {solution}", *view("{anser}")),
        ("critic.view.rollouts must be null", *view("{rollouts}")),
        ("critic.view.rollouts must be null", *view("{answer}", num=1)),
        ("rollouts.num_samples must be at least 9 for critic.view", *view("{rollouts}", num=8)),
        ("rollouts.num_samples must be at least 2 for critic.view",
         *view("{percent}"), *ONE_SAMPLE),
        ("critic.view.rollouts.wrong must contain {response} once",
         *view("{rollouts}", wrong="{answer}")),
        ("critic.learns_from must be a predictor of the run that samples continuations (none)",
         "critic.learns_from=monte_carlo"),
        ("critic.learns_from must be null where credit.gamma", *LEARNS_FROM_MANY,
         "credit.gamma=0.9"),
        ("critic.learns_from must be null where reference.kl_in", *LEARNS_FROM_MANY,
         "reference.kl_in=reward"),
        ("critic.learns_from must be a predictor whose states are null", *LEARNS_FROM_MANY,
         'values.predictors.drawn.states={"kind": "random", "cuts": 1}'),
        # The critic and what it feeds.
        ("critic must be a value model", "critic=null"),
        ("critic.warmup_iterations must be at most 20", "critic.warmup_iterations=21"),
        ("critic.warmup_iterations must be 0 or num_iterations for credit.kind 'rloo'",
         group("rloo"), "critic.warmup_iterations=3"),
        ("critic.batch_size must be at most", "critic.batch_size=257"),
        ("critic.micro_batch_size must be at most", "critic.micro_batch_size=65"),
        ("critic.loss must have room for rewards of 0, 1 and task.grading.truncated_reward = 0.0",
         entropy(0.5, 1), "credit.gamma=0.9"),
        ("critic.loss must have room", entropy(0, 1), "task.grading.truncated_reward=-1"),
        ("critic.loss.kind must be 'squared_error'", entropy(0, 1), "reference.kl_in=reward"),
        ("critic.kind must be 'separate' with model.lora", LORA, SHARED),
        ("critic.kind must be 'separate' where", *MEAN, "credit.level=step", SHARED),
        ("credit.level must be 'step'", *MEAN),
        ("either credit.policy_lambda or credit.length_adaptive_alpha must be null",
         "credit.length_adaptive_alpha=0.05"),
        ("either credit.policy_lambda or credit.length_adaptive_alpha must be null",
         "credit.policy_lambda=null"),
        *[
            (f"{message} with credit.kind 'gae_boot", "credit.kind=gae_bootstrapped", *more)
            for message, *more in (
                ("task.grading.truncated_reward must be 0", "task.grading.truncated_reward=null"),
                ("optimization.mask_truncated and .mask_equal_rewards must be false",
                 "optimization.mask_truncated=true"),
                ("values.credit must be a predictor of tokens' values, such as a critic,",
                 "credit.level=step", *MEAN),
            )
        ],
        ("reference.kl_gradient must be 'own'",
         "reference.kl_in=reward", "reference.kl_gradient=k2"),
        ('unknown key critic.coef (critic.kind is "separate")', "critic.coef=0.5"),
    ],
    GRPO: [
        *[
            (f"rollouts.num_samples must be at least 2 for credit.kind '{kind}'",
             group(kind, **keys), *ONE_SAMPLE)
            for kind, keys in (
                ("grpo", {"normalize_std": False}),
                ("rloo", {}),
                ("reinforce_plus_plus_baseline", {}),
            )
        ],
        ("values.credit must be null or one of the run's predictors (none)", "values.credit=mean"),
        ("values.credit must be null for credit.kind 'grpo', which takes no values", *MEAN),
        ("critic.kind must be 'separate' where", SHARED),
        ("reference.kl_importance must be false",
         "reference.kl_importance=true", "reference.kl_in=reward"),
        ("reference.kl_importance must be false",
         "reference.kl_importance=true", "reference.kl_estimator=full"),
        ("task.environment must not be null for credit.kind 'gigpo'",
         group("gigpo", gamma=1, step_weight=1, baseline="mean", normalize_std=True)),
    ],
    TREE: [
        ("credit.kind must not be 'tree' for values.predictors.told.view",
         predictors(told=TUNED | {"kind": "informed", "view": {"template": "{percent}"},
                                  "batch_size": 16, "micro_batch_size": 16})),
        ("rollouts.num_samples must be the product of credit.branching", "rollouts.num_samples=8"),
        ("credit.tokens_per_level must leave tokens", "credit.tokens_per_level=96"),
        ("reference.kl_in must be 'loss'", "reference.kl_in=reward"),
        ("optimization.resampling must be null", "optimization.resampling=best_worst"),
    ],
    DRILL: [
        ("task.environment must not be null", "task.environment=null"),
        ("credit.segmenter.kind must be 'turns'", 'credit.segmenter={"kind": "lines"}'),
        ("task.grading.reward_path must be null", "task.grading.reward_path=x.py"),
        ("values.predictors.truth of kind 'posterior' cannot value turns",
         predictors(truth=POSTERIOR)),
    ],
    "recipes/gigpo": [("reference.kl_in must be 'loss'", "reference.kl_in=reward")],
    "../experiments/12_causes/vineppo_gae": [
        ("values.predictors.sampled.states must be null for credit.kind 'gae'",
         'values.predictors.sampled.states={"kind": "uncertain", "cuts": 2}'),
    ],
}  # fmt: skip


@pytest.mark.parametrize("leaf", REFUSED)
def test_is_refused_in_a_line_that_names_the_key(configs, leaf):
    for message, *assignments in REFUSED[leaf]:
        with pytest.raises(UserError) as error:
            load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), assignments)
        assert str(error.value).startswith(f"config: {message}")


ACCEPTED = [
    (VINEPPO, ["sampling.top_p=0.9", TRAINER]),
    (VINEPPO, ONE_SAMPLE),
    (GRPO, [group("remax"), *ONE_SAMPLE]),
    (GRPO, [group("reinforce_plus_plus", gamma=1), *ONE_SAMPLE]),
    (GRPO, ["rollouts.num_samples=2", "rollouts.num_prompts=128", "reference.kl_in=reward"]),
    (PPO, [SHARED]),
    (PPO, [group("grpo", normalize_std=True)]),  # a critic that is only measured
    (PPO, ["critic.warmup_iterations=20"]),  # the critic alone
    (PPO, ["credit.policy_lambda=null", "credit.length_adaptive_alpha=0.05"]),
    (PPO, ["credit.level=step"]),
    (PPO, [entropy(-0.5, 1), "credit.gamma=0.9"]),
    (PPO, ["reference.kl_in=reward", "reference.kl_estimator=k1", "reference.kl_clamp=null"]),
    (VINEPPO, ["reference.kl_estimator=k1", "reference.kl_gradient=k2",
               "reference.kl_clamp=[-1, 1]"]),
    (VINEPPO, ["reference.kl_estimator=full"]),
    (VINEPPO, ["reference.kl_estimator=null", "reference.kl_coef=0"]),
    (VINEPPO, ["reference.kl_clamp=null", ADAPTIVE]),
    (VINEPPO, [TRUNCATED, TRAINER]),
    (PPO, ["model.dtype=bfloat16", "engine.dtype=bfloat16", "critic.zero_stage=1"]),
    (VINEPPO, ["evaluation.temperature=0", "evaluation.num_samples=1"]),
    (TRANSFORMERS, ["sampling.top_p=0.9", TRAINER]),
    (PPO, [LORA, "optimization.zero_stage=2", "critic.zero_stage=3"]),
    (PPO, ["optimization.offload=optimizer", "optimization.zero_stage=1",
           "critic.offload=optimizer", "critic.zero_stage=3"]),
]  # fmt: skip


def test_the_neighbours_of_what_is_refused_are_not(configs):
    for leaf, assignments in ACCEPTED:
        load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), assignments)


@pytest.mark.parametrize(
    ("message", "assignments"),
    [
        ("either model.path or model.architecture must be null", ["model.architecture=null"]),
        ("model.architecture.hidden_size must be a multiple of 2 * num_heads",
         ["model.architecture.num_heads=3"]),
        ("model.lora must be null with model.architecture", [LORA]),
        ("optimization.micro_batch_size must be at most optimization.batch_size = 1, got 2",
         ["optimization.batch_size=1", "optimization.micro_batch_size=2"]),
        ("task.environment must be null for `vineppo sft`",
         [table("task.environment", kind="drill", max_turn_tokens=4)]),
    ],
)  # fmt: skip
def test_fine_tuning_is_refused(configs, message, assignments):
    with pytest.raises(UserError) as error:
        load_config(SftConfig, str(configs / "sft_arithmetic.jsonnet"), assignments)
    assert str(error.value).startswith(f"config: {message}")


def test_a_further_critic_feeds_gae_of_tokens_in_place_of_critic(configs):
    config = load_config(
        TrainConfig,
        str(configs / "demo_ppo.jsonnet"),
        ["critic=null", predictors(tuned=TUNED), "values.credit=tuned"],
    )
    assert config.value_models == {"values.predictors.tuned": config.values.predictors["tuned"]}


def test_stage_0_of_bfloat16_is_refused_on_several_ranks(configs, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assignments = ["model.dtype=bfloat16", "engine.dtype=bfloat16", "optimization.zero_stage=1"]
    with pytest.raises(UserError, match=r"^config: critic\.zero_stage .* got 0 on 2$"):
        load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), assignments)
