"""ReMax samples one greedy response a problem beside the rollouts."""

from support.experiences import changed
from support.random_walk import DIGITS, TOP, prompt_ids, sample
from support.walks import LONG, SHORT, STARTS, gather
from vineppo.sequences import Scores, trajectories

from vineppo.config.load import load_config
from vineppo.config.schema import LinesSegmenter, RemaxCredit, RlooCredit, TrainConfig
from vineppo.credit import token_advantages

REMAX = RemaxCredit("remax", LinesSegmenter("lines"))
NUM_SAMPLES = 6
NUM_ROLLOUTS = len(STARTS) * NUM_SAMPLES


def test_one_greedy_request_a_problem_with_a_seed_of_its_own():
    experience, engine = gather(SHORT, 3, REMAX, NUM_SAMPLES)
    greedy = [request for request in engine.requests if request.temperature == 0]
    assert len(engine.requests) == NUM_ROLLOUTS + len(STARTS)
    assert [request.prefix_ids for request in greedy] == [prompt_ids(start) for start in STARTS]
    assert {(r.top_p, r.max_tokens) for r in greedy} == {(1.0, SHORT)}
    assert {r.temperature for r in engine.requests} == {0.0, 1.0}
    assert len({request.seed for request in engine.requests}) == len(engine.requests)
    assert len(experience.rollouts) == NUM_ROLLOUTS
    assert experience.values_S is None
    assert experience.num_continuations == 0


def test_other_estimators_sample_no_greedy_response():
    experience, engine = gather(SHORT, 3, RlooCredit("rloo", LinesSegmenter("lines")), NUM_SAMPLES)
    assert {request.temperature for request in engine.requests} == {1.0}
    assert len(engine.requests) == NUM_ROLLOUTS
    assert experience.greedy_rewards == {}


def test_the_greedy_response_is_the_baseline_of_its_problem(configs):
    """Every advantage is the rollout's reward less that of its own problem's greedy response."""
    config = load_config(TrainConfig, str(configs / "demo_grpo.jsonnet"), [])
    config = changed(config, credit=REMAX)
    baselines = set()
    for seed in range(4):
        experience, engine = gather(LONG, seed, REMAX, NUM_SAMPLES)
        expected = {
            f"walk/{start}": reward_of(request)
            for start, request in zip(
                STARTS, (r for r in engine.requests if r.temperature == 0), strict=True
            )
        }
        assert experience.greedy_rewards == expected
        baselines |= set(expected.values())
        nothing = [(0.0,) * len(r.response_ids) for r in experience.rollouts]
        found = trajectories(experience, Scores(nothing, nothing, nothing, None), config, 0.0)
        for rollout, trajectory in zip(experience.rollouts, found, strict=True):
            baseline = expected[rollout.problem.id]
            assert trajectory.greedy_reward == baseline
            (advantages_T,) = token_advantages(REMAX, [trajectory])
            assert set(advantages_T) == {rollout.reward - baseline}
    assert baselines == {0.0, 1.0}  # the walk ends both ways, so the test can tell them apart


def reward_of(request):
    """By the engine's own sample: 1 where the walk ends at the top."""
    return float(DIGITS[TOP] == sample(request)[-2])
