"""ReMax: one greedy response a problem, whose reward is the baseline."""

from support.random_walk import DIGITS, TOP, prompt_ids, sample
from support.rollouts import LINES, rollout, terminal
from support.walks import (
    LONG,
    SHORT,
    STARTS,
    walk_config,
    walked,
)

from vineppo.credit import token_advantages
from vineppo.experience import add_advantages
from vineppo.recipes.remax import RemaxCredit

REMAX = RemaxCredit("remax", LINES)
NUM_SAMPLES = 6
NUM_ROLLOUTS = len(STARTS) * NUM_SAMPLES


def test_the_documented_numbers():
    group = [rollout(terminal(reward, 2), greedy_reward=1.0) for reward in (1.0, 0.0)]
    assert token_advantages(REMAX, group) == [[0.0, 0.0], [-1.0, -1.0]]


def test_one_greedy_request_a_problem_with_a_seed_of_its_own():
    experience, engine = walked(walk_config(SHORT, 3, REMAX, NUM_SAMPLES))
    greedy = [request for request in engine.requests if request.temperature == 0]
    assert len(engine.requests) == NUM_ROLLOUTS + len(STARTS)
    assert [request.prefix_ids for request in greedy] == [prompt_ids(start) for start in STARTS]
    assert {r.max_tokens for r in greedy} == {SHORT}
    assert {r.temperature for r in engine.requests} == {0.0, 1.0}
    assert len({request.seed for request in engine.requests}) == len(engine.requests)
    assert len(experience.rollouts) == NUM_ROLLOUTS
    assert not any(rollout.returns_S for rollout in experience.rollouts)
    assert experience.greedy_tokens == sum(len(sample(request)) for request in greedy)
    assert experience.num_continuations == 0


def test_the_greedy_response_is_the_baseline_of_its_problem():
    """Every advantage is the rollout's reward less that of its own problem's greedy response."""
    baselines = set()
    for seed in range(4):
        config = walk_config(LONG, seed, REMAX, NUM_SAMPLES)
        experience, engine = walked(config)
        greedy = [request for request in engine.requests if request.temperature == 0]
        expected = {f"walk/{start}": reward_of(r) for start, r in zip(STARTS, greedy, strict=True)}
        baselines |= set(expected.values())
        for one in experience.rollouts:
            nothing = (0.0,) * len(one.response_ids)
            one.tokens_T |= {"kl": nothing, "trainer_logprobs": nothing}
        add_advantages(experience.rollouts, [], config, 0.0)
        for one in experience.rollouts:
            assert one.greedy_reward == expected[one.problem.id]
            assert set(one.tokens_T["advantages"]) == {one.reward - one.greedy_reward}
    assert baselines == {0.0, 1.0}  # the walk ends both ways, so the test can tell them apart


def reward_of(request):
    """By the engine's own sample: 1 where the walk ends at the top."""
    return float(DIGITS[TOP] == sample(request)[-2])
