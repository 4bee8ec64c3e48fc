"""Every combination that makes no sense is refused in one line, before any model loads."""

import json
from pathlib import Path

import pytest
from support.shared_critic import shared_critic

from vineppo.config.load import evaluate_jsonnet, load_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError

VINEPPO, PPO, GRPO = "demo_vineppo", "demo_ppo", "demo_grpo"
SHARED = "critic=" + json.dumps(shared_critic())
ADAPTIVE = 'reference.kl_control={"kind": "adaptive", "target": 1.0, "horizon": 1000}'
MASKED = (
    'optimization.importance_correction={"kind": "masked", "level": "token", '
    '"min_weight": 2.0, "max_weight": 0.5}'
)
TRUNCATED = (
    'optimization.importance_correction={"kind": "truncated", "level": "sequence", '
    '"max_weight": 2.0}'
)
TRAINER = "optimization.old_logprobs=trainer"


LORA = "model.lora=" + json.dumps({"rank": 4, "alpha": 8, "target_modules": ["q_proj"]})
TRANSFORMERS = "recipes/transformers_engine"
DRILL = "drill_vineppo"
TURNS = 'credit.segmenter={"kind": "turns"}'


CONFIGS = Path(__file__).parents[2] / "configs"
TUNED = evaluate_jsonnet(str(CONFIGS / "demo_ppo.jsonnet"))["critic"]


def entropy(low, high):
    loss = {"kind": "cross_entropy", "low": low, "high": high}
    return f"critic.loss={json.dumps(loss)}"


def group(kind, **keys):
    return "credit=" + json.dumps({"kind": kind, "segmenter": {"kind": "lines"}, **keys})


def predictors(**configs):
    return f"values.predictors={json.dumps(configs)}"


def some(kind, **keys):
    return f"credit.states={json.dumps({'kind': kind, **keys})}"


GAE_OF_VINE = "credit_short_vineppo_gae"
MEAN = [predictors(mean={"kind": "group_mean"}), "values.credit=mean"]

MANY = {"kind": "monte_carlo", "num_continuations": 16, "identical_prefixes": "share",
        "states": None}  # fmt: skip
POSTERIOR = {"kind": "posterior", "num_candidates": 8, "size": 16, "learning_rate": 3e-3,
             "weight_decay": 0.05, "num_steps": 2, "batch_size": 4,
             "replay_iterations": 2}  # fmt: skip
SMOOTHED = {"kind": "smoothed", "of": "monte_carlo", "change": 0.1, "direction": "causal"}
PROBE = {"kind": "probe", "of": "monte_carlo", "features": "both", "size": 8, "learning_rate": 3e-3,
         "weight_decay": 0, "num_steps": 2, "batch_size": 4, "replay_iterations": 2,
         "num_folds": 2, "crossed": False}  # fmt: skip

TREE = "recipes/tree"
BOOTSTRAPPED = "credit.kind=gae_bootstrapped"


def view(template, **rollouts):
    shown = {"num": 3, "max_tokens": 9, "right": "{response}", "wrong": "{response}"} | rollouts
    table = {
        "template": template,
        "place": "before_prompt",
        "rollouts": shown if rollouts else None,
    }
    return f"critic.view={json.dumps(table)}", "critic.kind=informed"


REFUSED = [
    # Views: what a critic is told.
    (PPO, [*view("{anser}")],
     "critic.view.template must contain one of {answer}, {solution}, {percent}, {rollouts}, got "
     "'{anser}'"),
    (PPO, [*view("{rollouts}")],
     "critic.view.rollouts must be null where critic.view.template has no {rollouts}, and else a "
     "table, got '{rollouts}'"),
    (PPO, [*view("{answer}", num=1)],
     "critic.view.rollouts must be null where critic.view.template has no {rollouts}, and else a "
     "table, got '{answer}'"),
    (PPO, [*view("{rollouts}", num=8)],
     "critic.view.rollouts.num must be below rollouts.num_samples = 8, got 8"),
    (PPO, [*view("{rollouts}", wrong="{answer}")],
     "critic.view.rollouts.wrong must contain {response} once, got '{answer}'"),
    (PPO, [*view("{percent}"), "rollouts.num_samples=1", "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 for critic.view.template '{percent}' (it tells of "
     "the problem's other rollouts), got 1"),
    (TREE, [predictors(told=TUNED | {"kind": "informed", "view": {"template": "{percent}"},
                                     "batch_size": 16, "micro_batch_size": 16})],
     "credit.kind must not be 'tree' for values.predictors.told.view.template '{percent}' (the "
     "other rollouts share this one's actions)"),
    # Whose continuations a critic learns from.
    (PPO, ["critic.learns_from=monte_carlo"],
     "critic.learns_from must be a predictor of the run that samples continuations (none), got "
     "monte_carlo"),
    (PPO, [predictors(drawn=MANY), "critic.learns_from=drawn", "credit.gamma=0.9"],
     "critic.learns_from must be null where credit.gamma is below 1 or values replace rewards "
     "(continuations' returns do neither), got drawn"),
    (PPO, [predictors(drawn=MANY | {"states": {"kind": "random", "cuts": 1}}),
           "critic.learns_from=drawn"],
     "critic.learns_from must be a predictor whose states are null or follow from the tokens "
     "before them, such as 'coin' or 'expected', got drawn"),
    (PPO, [predictors(drawn=MANY), "critic.learns_from=drawn", "reference.kl_in=reward",
           "reference.kl_estimator=k1", "reference.kl_clamp=null"],
     "critic.learns_from must be null where reference.kl_in is 'reward' (continuations hold no "
     "KL), got drawn"),
    # A tree and what it needs.
    (TREE, ["rollouts.num_samples=8"],
     "rollouts.num_samples must be the product of credit.branching (the leaves of a tree) = 4, got "
     "8"),
    (TREE, ["credit.tokens_per_level=96"],
     "credit.tokens_per_level must leave tokens of sampling.max_tokens = 96 to the last of 2 "
     "levels, got 96"),
    (TREE, ["reference.kl_in=reward"],
     "reference.kl_in must be 'loss' for credit.kind 'tree' (a node's value holds no KL), got "
     "'reward'"),
    (TREE, ["credit.branching=[4, 1]"],
         "credit.branching.1: Input should be greater than or equal to 2, got 1"),
    (TREE, ["credit.branching=[]"],
         "credit.branching: Tuple should have at least 1 item after validation, not 0, "
         "got []"),
    # What an update is laid out like.
    (VINEPPO, ["optimization.batch_size=257"],
     "optimization.batch_size must be at most rollouts.num_prompts * rollouts.num_samples = 256, "
     "got 257"),
    (VINEPPO, ["optimization.micro_batch_size=65"],
     "optimization.micro_batch_size must be at most optimization.batch_size = 64, got 65"),
    (VINEPPO, ["sampling.top_p=0.9"],
     'optimization.old_logprobs must be "trainer" when sampling.top_p < 1 (the engine\'s are '
     "renormalised over the nucleus), got 'engine'"),
    (VINEPPO, ["sampling.top_p=0.7", TRAINER, TRUNCATED],
     "optimization.importance_correction must be null when sampling.top_p < 1 (the engine's "
     "log-probabilities are renormalised over the nucleus, so the weights would be its mass), got "
     "'truncated'"),
    # Credit.
    *[
        (GRPO, [group(kind, **keys), "rollouts.num_samples=1", "rollouts.num_prompts=256"],
         f"rollouts.num_samples must be at least 2 for credit.kind '{kind}' (it compares the "
         "rollouts of a problem), got 1")
        for kind, keys in (
            ("grpo", {"normalize_std": False}),
            ("rloo", {}),
            ("reinforce_plus_plus_baseline", {}),
        )
    ],
    (PPO, ["critic=null"],
     "critic must be a value model for credit.kind 'gae' where values.credit is null, got null"),
    (PPO, ["credit.length_adaptive_alpha=0.05"],
     "either credit.policy_lambda or credit.length_adaptive_alpha must be null, got "
     "[1.0, 0.05]"),
    (PPO, ["credit.policy_lambda=null"],
     "either credit.policy_lambda or credit.length_adaptive_alpha must be null, got "
     "[None, None]"),
    (VINEPPO, [predictors(probe=PROBE | {"crossed": True})],
     "values.predictors.probe.of must be null with values.predictors.probe.crossed (it looks at "
     "rewards alone), got 'monte_carlo'"),
    (VINEPPO, [predictors(probe=PROBE | {"crossed": True, "of": None}), "rollouts.num_samples=1",
               "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 with values.predictors.probe.crossed (it looks at a "
     "problem's other rollouts), got 1"),
    # Values of the ends of truncated responses.
    (PPO, [BOOTSTRAPPED, "task.grading.truncated_reward=null"],
     "task.grading.truncated_reward must be 0 with credit.kind 'gae_bootstrapped' (a value stands "
     "in its place), got None"),
    (PPO, [BOOTSTRAPPED, "optimization.mask_truncated=true"],
     "optimization.mask_truncated and .mask_equal_rewards must be false with credit.kind "
     "'gae_bootstrapped' (they would leave out what is bootstrapped), got true"),
    (PPO, [BOOTSTRAPPED, "credit.level=step", "values.credit=mean",
           predictors(mean={"kind": "group_mean"})],
     "values.credit must be a predictor of tokens' values, such as a critic, with credit.kind "
     "'gae_bootstrapped' (it values the end of a response), got mean"),
    (VINEPPO, ["optimization.max_redraws=1"],
     "optimization.mask_equal_rewards must be true with optimization.max_redraws (it says in whose "
     "place problems are drawn), got false"),
    # Values.
    (VINEPPO, [predictors(critic={"kind": "group_mean"})],
     "values.predictors must not be named monte_carlo, critic, policy, trainer or state.json, "
     "got critic"),
    (VINEPPO, [predictors(tuned=TUNED | {"warmup_iterations": 1})],
     "values.predictors.tuned.warmup_iterations must be 0 (only critic may warm up), got 1"),
    (VINEPPO, [predictors(tuned=TUNED | {"batch_size": 257})],
     "values.predictors.tuned.batch_size must be at most rollouts.num_prompts * "
     "rollouts.num_samples = 256, got 257"),
    (VINEPPO, [predictors(**{"a b": {"kind": "group_mean"}})],
     "values.predictors.a b: String should match pattern '^[A-Za-z0-9][A-Za-z0-9._-]*$', "
     "got \"a b\""),
    (VINEPPO, ["values.credit=mean"],
     "values.credit must be null or one of the run's predictors (monte_carlo), got mean"),
    (GRPO, ["values.credit=mean"],
     "values.credit must be null or one of the run's predictors (none), got mean"),
    (GRPO, [predictors(mean={"kind": "group_mean"}), "values.credit=mean"],
     "values.credit must be null for credit.kind 'grpo', which takes no values, got mean"),
    (PPO, [predictors(mean={"kind": "group_mean"}), "values.credit=mean"],
     "credit.level must be 'step' with values.credit mean (it values steps), got 'token'"),
    (PPO, [predictors(mean={"kind": "group_mean"}), "values.credit=mean", "credit.level=step",
           SHARED],
     "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
     "would change the policy that it only measures), got 'shared'"),
    # Values of some states.
    (VINEPPO, [some("random", cuts=0)],
     "credit.states.cuts: Input should be greater than or equal to 1, got 0"),
    (VINEPPO, [some("expected", by="entropy", probability=0.2, floor=0.3)],
     "credit.states.floor must be at most credit.states.probability = 0.2, got 0.3"),
    (VINEPPO, [some("coin", probability=0)],
     "credit.states.probability: Input should be greater than 0, got 0"),
    (VINEPPO, [some("random", probability=0.5)],
     'unknown key credit.states.probability (credit.states.kind is "random")'),
    (VINEPPO, [some("all", cuts=1)],
     "credit.states: kind must be one of 'coin', 'expected', 'random', 'surprisal', "
     "'uncertain', or 'FILE.py:Class', got 'all'"),
    (VINEPPO, [some("random", cuts=1), "rollouts.num_samples=1", "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 for values of some states (the others' mean reward "
     "is the baseline before the first of them), got 1"),
    (GAE_OF_VINE, ['values.predictors.sampled.states={"kind": "uncertain", "cuts": 2}'],
     "values.predictors.sampled.states must be null for credit.kind 'gae' (it takes the values of "
     "all states)"),
    (VINEPPO, [predictors(pool={"kind": "pooled", "of": "mean"}, mean={"kind": "group_mean"},
                          many=MANY)],
     "values.predictors.pool.of must be a predictor of the run that samples continuations "
     "(monte_carlo, many), got mean"),
    (PPO, [predictors(pool={"kind": "pooled", "of": "monte_carlo"})],
     "values.predictors.pool.of must be a predictor of the run that samples continuations (none), "
     "got monte_carlo"),
    (VINEPPO, [predictors(smooth=SMOOTHED), some("random", cuts=1)],
     "values.predictors.smooth.of must be a predictor whose states is null (it reads the returns "
     "of all states), got monte_carlo"),
    (VINEPPO, [predictors(drawn={"kind": "shrunk", "of": "monte_carlo", "toward": "siblings"}),
               "rollouts.num_samples=1", "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 for values.predictors.drawn of kind 'shrunk' (it "
     "compares the rollouts of a problem), got 1"),
    (VINEPPO, [predictors(smooth=SMOOTHED), "task.grading.truncated_reward=-1"],
     "task.grading.truncated_reward must be null or within [0, 1] for values.predictors.smooth of "
     "kind 'smoothed', got -1.0"),
    (VINEPPO, [predictors(ratios=POSTERIOR), "task.grading.truncated_reward=-1"],
     "task.grading.truncated_reward must be null or within [0, 1] for values.predictors.ratios of "
     "kind 'posterior', got -1.0"),
    (VINEPPO, [predictors(smooth=SMOOTHED), "task.grading.reward_path=mine.py"],
     "task.grading.reward_path must be null for values.predictors.smooth of kind 'smoothed' "
     "(rewards must be within [0, 1]), got 'mine.py'"),
    (VINEPPO, [predictors(probe=PROBE), "task.grading.truncated_reward=-1"],
     "task.grading.truncated_reward must be null or within [0, 1] for values.predictors.probe of "
     "kind 'probe', got -1.0"),
    (VINEPPO, [predictors(probe=PROBE | {"of": "sampled"})],
     "values.predictors.probe.of must be a predictor of the run that samples continuations "
     "(monte_carlo), got sampled"),
    # The critic.
    (PPO, ["critic.warmup_iterations=21"],
     "critic.warmup_iterations must be at most num_iterations = 20, got 21"),
    (GRPO, [SHARED],
     "critic.kind must be 'separate' for credit.kind 'grpo' (a shared one would "
     "change the policy that it only measures), got 'shared'"),
    (PPO, ["critic.batch_size=257"],
     "critic.batch_size must be at most rollouts.num_prompts * rollouts.num_samples = 256, got "
     "257"),
    (PPO, ["critic.micro_batch_size=65"],
     "critic.micro_batch_size must be at most critic.batch_size = 64, got 65"),
    (PPO, [entropy(1, 1)], "critic.loss.low must be below critic.loss.high = 1.0, got 1.0"),
    (PPO, [entropy(0.5, 1), "credit.gamma=0.9"],
     "critic.loss.low and .high must enclose every reward (0, 1 and "
     "task.grading.truncated_reward), got 0.5 and 1.0"),
    (PPO, [entropy(0, 1), "task.grading.truncated_reward=-1"],
     "critic.loss.low and .high must enclose every reward (0, 1 and "
     "task.grading.truncated_reward), got 0.0 and 1.0"),
    (PPO, [entropy(0, 1), "reference.kl_in=reward"],
     "critic.loss.kind must be 'squared_error' when reference.kl_in is 'reward' (the KL has no "
     "bound), got 'cross_entropy'"),
    # The reference.
    (VINEPPO, ["reference.kl_in=reward"],
     "reference.kl_in must be 'loss' for credit.kind 'vine' (the continuations' returns hold no "
     "KL), got 'reward'"),
    (VINEPPO, ["reference.kl_estimator=k1"],
     "reference.kl_gradient must be 'k2' for reference.kl_estimator 'k1' in the loss (its own "
     "gradient has expectation 0), got 'own'"),
    (PPO, ["reference.kl_in=reward", "reference.kl_gradient=k2"],
     "reference.kl_gradient must be 'own' when reference.kl_in is 'reward' (a reward has no "
     "gradient), got 'k2'"),
    (VINEPPO, ["reference.kl_estimator=null"],
     "reference.path must be null, kl_coef 0 and kl_in 'loss' when reference.kl_estimator is null "
     "(there is no reference then), got (None, 0.001, 'loss')"),
    (VINEPPO, ["reference.kl_clamp=[1, 1]"],
     "reference.kl_clamp must be null or [low, high] with low < high, got (1.0, 1.0)"),
    (VINEPPO, [ADAPTIVE, "reference.kl_coef=0"],
     "reference.kl_coef must be above 0 when reference.kl_control.kind is 'adaptive' (it is "
     "multiplied), got 0"),
    (VINEPPO, ["reference.kl_estimator=k1", "reference.kl_gradient=k2"],
     "reference.kl_clamp must be null or begin below 0 for reference.kl_estimator 'k1' (which may "
     "be negative), got (0.0, 10.0)"),
    (VINEPPO, [ADAPTIVE.replace("1000", "255")],
     "rollouts.num_prompts * rollouts.num_samples must be at most "
     "reference.kl_control.horizon = 255.0, got 256"),
    (PPO, ['credit={"kind": "rloo", "segmenter": {"kind": "lines"}}', "critic.warmup_iterations=3"],
     "critic.warmup_iterations must be 0 or num_iterations for credit.kind 'rloo' "
     "(a critic beside it is only measured), got 3"),
    (VINEPPO, ['optimization.positive_examples={"coef": 0.1, "min_reward": 1}'],
     "optimization.positive_examples.min_reward must be below the largest reward, which it "
     "excludes, got 1.0"),
    (VINEPPO, ["optimization.max_token_prob=0"],
     "optimization.max_token_prob: Input should be greater than 0, got 0"),
    # Importance.
    (VINEPPO, [TRUNCATED],
     "optimization.old_logprobs must be 'trainer' with optimization.importance_correction (the "
     "engine's as denominator already correct for the mismatch), got 'engine'"),
    (VINEPPO, [MASKED, TRAINER],
     "optimization.importance_correction.min_weight and max_weight must enclose 1, got 2.0 and "
     "0.5"),
    *[
        (GRPO, ["reference.kl_importance=true", other],
         "reference.kl_importance must be false when reference.kl_in is 'reward' or kl_estimator "
         "is 'full' (it weighs the sampled tokens in the loss), got true")
        for other in ("reference.kl_in=reward", "reference.kl_estimator=full")
    ],
    # The policy's loss, and which rollouts it takes.
    (VINEPPO, ["optimization.policy_loss=gspo", "optimization.dual_clip=3"],
     "optimization.dual_clip must be null for optimization.policy_loss 'gspo', got 3.0"),
    (VINEPPO, ["optimization.mask_equal_rewards=true", "rollouts.num_samples=1",
               "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 with optimization.mask_equal_rewards (it compares "
     "the rollouts of a problem), got 1"),
    (VINEPPO, ["optimization.resampling=best_worst", "rollouts.num_samples=1",
               "rollouts.num_prompts=256"],
     "rollouts.num_samples must be at least 2 with optimization.resampling (it compares the "
     "rollouts of a problem), got 1"),
    (TREE, ["optimization.resampling=best_worst"],
     "optimization.resampling must be null for credit.kind 'tree' (its rollouts stand for segments "
     "that they share), got 'best_worst'"),
    # The task and the engine.
    (VINEPPO, ["task.prompt.template=x"],
     "task.prompt.template must contain {question}, got 'x'"),
    (VINEPPO, ["task.response_template=x"],
     "task.response_template must contain {solution}, got 'x'"),
    (VINEPPO, ["task.min_operations=9"],
     "task.min_operations must be at most task.max_operations = 6, got 9"),
    (VINEPPO, ["engine.dtype=bfloat16"],
     "engine.dtype must be model.dtype = 'float32', got 'bfloat16'"),
    (VINEPPO, ["evaluation.temperature=0.001"],
     "evaluation.temperature must be 0 or at least 0.01, got 0.001"),
    (VINEPPO, ["evaluation.temperature=0"],
     "evaluation.num_samples must be 1 when evaluation.temperature is 0 (greedy samples are all "
     "the same), got 4"),
    (VINEPPO, ["sampling.max_tokens=128"],
     "sampling.max_tokens must be below engine.max_model_len = 128, got 128"),
    (VINEPPO, ["engine.max_num_batched_tokens=511"],
     "engine.max_num_seqs must be at most engine.max_num_batched_tokens = 511, got 512"),
    (VINEPPO, ["engine.max_num_batched_tokens=127", "engine.max_num_seqs=64"],
     "engine.max_model_len must be at most engine.max_num_batched_tokens = 127, got 128"),
    # States that leave the GPU.
    (VINEPPO, ["optimization.offload=optimizer"],
     "optimization.offload must be 'nothing' with optimization.zero_stage 0 (ZeRO moves the "
     "states), got 'optimizer'"),
    # Adapters.
    (VINEPPO, [LORA, "optimization.zero_stage=3"],
     "optimization.zero_stage must be at most 2 with model.lora (what trains is small, and what is "
     "merged must be whole), got 3"),
    (PPO, [LORA, SHARED],
     "critic.kind must be 'separate' with model.lora (a shared one is saved with the backbone's "
     "own weights), got 'shared'"),
    # Environments.
    (VINEPPO, [TURNS], "task.environment must not be null for credit.segmenter.kind 'turns'"),
    (DRILL, ["task.environment=null"],
     "task.environment must not be null for credit.segmenter.kind 'turns'"),
    (GRPO, [group("gigpo", gamma=1, step_weight=1, baseline="mean", normalize_std=True)],
     "task.environment must not be null for credit.kind 'gigpo'"),
    (DRILL, ['credit.segmenter={"kind": "lines"}'],
     "credit.segmenter.kind must be 'turns' for task.environment of kind 'drill' (a step is a turn "
     "and its answer), got 'lines'"),
    (DRILL, ["task.grading.reward_path=x.py"],
     "task.grading.reward_path must be null for task.environment of kind 'drill', which rewards"),
    (DRILL, ['values.predictors={"truth": {"kind": "posterior", "num_candidates": 8, "size": 16, '
             '"learning_rate": 1e-3, "weight_decay": 0, "num_steps": 2, "batch_size": 4, '
             '"replay_iterations": 2}}'],
     "values.predictors.truth of kind 'posterior' cannot value turns, for task.environment of kind "
     "'drill'"),
    (DRILL, ["sampling.max_tokens=3"],
     "task.environment.max_turn_tokens must be at most sampling.max_tokens = 3, got 4"),
    (VINEPPO, [TURNS, 'task.environment={"kind": "verifiers", "max_turn_tokens": 4}'],
     "task.kind must be 'verifiers' for task.environment of kind 'verifiers', got 'arithmetic'"),
    ("recipes/gigpo", ["reference.kl_in=reward"],
     "reference.kl_in must be 'loss' for credit.kind 'gigpo' (a turn's return holds no KL), got "
     "'reward'"),
    # Keys that a kind needs.
    (TRANSFORMERS, ["engine.block_size=32"],
     'unknown key engine.block_size (engine.kind is "transformers")'),
    (
        VINEPPO, ["engine.kind=hf"],
        "engine: kind must be one of 'vllm', 'transformers', 'vllm_processes', or "
        "'FILE.py:Class', got 'hf'",
    ),
    (VINEPPO, ['model.lora={"rank": 4, "alpha": 8}'], "missing key model.lora.target_modules"),
    (VINEPPO, ['reference.kl_control={"kind": "adaptive", "horizon": 1000}'],
     "missing key reference.kl_control.target"),
    (VINEPPO, ['reference.kl_control={"kind": "adaptive", "target": 1.0}'],
     "missing key reference.kl_control.horizon"),
    (PPO, ["critic.coef=0.5"], 'unknown key critic.coef (critic.kind is "separate")'),
    (GRPO, ["credit.gamma=1"], 'unknown key credit.gamma (credit.kind is "grpo")'),
]  # fmt: skip


@pytest.mark.parametrize(("leaf", "assignments", "message"), REFUSED, ids=lambda part: str(part))
def test_is_refused(configs, leaf, assignments, message):
    with pytest.raises(UserError) as error:
        load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), assignments)
    assert str(error.value) == f"config: {message}"


@pytest.mark.parametrize(
    ("leaf", "assignments"),
    [
        (VINEPPO, ["sampling.top_p=0.9", TRAINER]),
        (VINEPPO, ["rollouts.num_samples=1", "rollouts.num_prompts=256"]),
        (GRPO, [group("remax"), "rollouts.num_samples=1", "rollouts.num_prompts=256"]),
        (GRPO, [group("reinforce_plus_plus", gamma=1), "rollouts.num_samples=1",
                "rollouts.num_prompts=256"]),
        (GRPO, ["rollouts.num_samples=2", "rollouts.num_prompts=128", "reference.kl_in=reward"]),
        (PPO, [SHARED]),
        (PPO, [group("grpo", normalize_std=True)]),  # a critic that is only measured
        (PPO, ["critic.warmup_iterations=20"]),  # the critic alone
        (PPO, ["credit.policy_lambda=null", "credit.length_adaptive_alpha=0.05"]),
        (PPO, ["credit.level=step"]),
        (PPO, [entropy(0, 1), "credit.gamma=0.9"]),
        (PPO, [entropy(-0.5, 1)]),
        (PPO, ["reference.kl_in=reward", "reference.kl_estimator=k1", "reference.kl_clamp=null"]),
        (VINEPPO, ["reference.kl_estimator=k1", "reference.kl_gradient=k2",
                   "reference.kl_clamp=[-1, 1]"]),
        (VINEPPO, ["reference.kl_estimator=full"]),
        (VINEPPO, ["reference.kl_estimator=null", "reference.kl_coef=0"]),
        (VINEPPO, ["reference.kl_clamp=null"]),
        (VINEPPO, [ADAPTIVE]),
        (VINEPPO, [TRUNCATED, TRAINER]),
        (PPO, ["model.dtype=bfloat16", "engine.dtype=bfloat16", "optimization.zero_stage=0",
               "critic.zero_stage=1"]),
        (VINEPPO, ["evaluation.temperature=0", "evaluation.num_samples=1"]),
        (TRANSFORMERS, ["sampling.top_p=0.9", TRAINER]),
        (PPO, [LORA, "optimization.zero_stage=2", "critic.zero_stage=3"]),
        (PPO, ["optimization.offload=optimizer", "optimization.zero_stage=1",
               "critic.offload=optimizer", "critic.zero_stage=3"]),
    ],
    ids=lambda part: str(part),
)  # fmt: skip
def test_its_neighbour_is_not_refused(configs, leaf, assignments):
    load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), assignments)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["model.architecture=null"],
         "either model.path or model.architecture must be null, got [None, None]"),
        (["model.architecture.num_heads=3"],
         "model.architecture.hidden_size must be a multiple of 2 * num_heads, and num_heads of "
         "num_key_value_heads"),
        ([LORA], "model.lora must be null with model.architecture (a new model has nothing to "
         "adapt)"),
        (["optimization.batch_size=1", "optimization.micro_batch_size=2"],
         "optimization.micro_batch_size must be at most optimization.batch_size = 1, got 2"),
        (['task.environment={"kind": "drill", "max_turn_tokens": 4}'],
         "task.environment must be null for `vineppo sft` (a demonstration is one turn)"),
    ],
)  # fmt: skip
def test_fine_tuning_is_refused(configs, assignments, message):
    with pytest.raises(UserError) as error:
        load_config(SftConfig, str(configs / "sft_arithmetic.jsonnet"), assignments)
    assert str(error.value) == f"config: {message}"


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
