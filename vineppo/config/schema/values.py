"""Value predictors: what each is told, and where it is.

A new predictor is a file in `vineppo/values/`, its table here with the keys that it has, and its
name in `PredictorConfig`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from vineppo.config.schema.adam import AdamConfig
from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    FileName,
    Fraction,
    Name,
    NonNegative,
    Positive,
    PositiveFraction,
)

# States of an iteration with the same token ids (the prompt of G rollouts, say):
# "share"    K continuations are sampled once and serve every rollout that passes the state;
# "union"    every rollout's K are sampled, and each of them gets the returns of all;
# "separate" every rollout's K are sampled and kept apart.
IdenticalPrefixes = Literal["share", "union", "separate"]


class Values:
    """What every predictor's config says.

    `implementation` is module:class in `vineppo.values`, by name: reading a config loads no model.
    """

    implementation: ClassVar[str]
    gives: ClassVar[Literal["tokens", "steps"]] = "steps"
    is_martingale: ClassVar[bool] = False  # under the policy, with the differences of its tokens
    is_exact: ClassVar[bool] = False  # the policy's value itself, up to what it counts
    is_probability: ClassVar[bool] = False  # of success, so that rewards must be within [0, 1]
    is_sampled: ClassVar[bool] = False  # by the engine, while rollouts are
    takes_turns: ClassVar[bool] = False  # values states between turns, through the policy's mask

    @property
    def monte_carlo(self) -> "MonteCarloValues | None":
        """Itself, where it samples continuations."""
        return None

    @property
    def returns_of(self) -> str | None:
        """The predictor whose continuations' returns it reads; None: it reads none."""
        return None

    @property
    def values_of(self) -> str | None:
        """The predictor whose values it reads; None: it reads none."""
        return None

    @property
    def own_model(self) -> "SeparateCritic | None":
        """Itself, where it is a model of its own, with an optimizer of its own."""
        return None


@dataclass(frozen=True)
class Cuts:
    """At most `cuts` step boundaries of each rollout, chosen once it has ended."""

    kind: Literal["random", "uncertain", "surprisal"]
    cuts: Count

    def expected(self, num_boundaries: float) -> float:
        """How many of a rollout's boundaries are chosen on average."""
        return min(self.cuts, num_boundaries)


@dataclass(frozen=True)
class CoinCuts:
    """Every step boundary with this probability, each by itself."""

    kind: Literal["coin"]
    probability: PositiveFraction

    def expected(self, num_boundaries: float) -> float:
        return self.probability * num_boundaries


@dataclass(frozen=True)
class ExpectedCuts:
    """Every step boundary, the more often the less sure the step before it was.

    With `probability` on average and at least `floor`.
    """

    kind: Literal["expected"]
    by: Literal["probability", "entropy"]  # of the step taken, or of the policy before its tokens
    probability: PositiveFraction
    floor: Fraction

    def expected(self, num_boundaries: float) -> float:
        return self.probability * num_boundaries


# Which states are sampled (`vineppo/values/cuts.py`), of s_0 none; null: all, s_0 with them.
StatesConfig = Annotated[Cuts | CoinCuts | ExpectedCuts, Field(discriminator="kind")]


@dataclass(frozen=True)
class MonteCarloValues(Values):
    """The mean return of fresh continuations; with 256 of them, the oracle that others face."""

    implementation = "monte_carlo:MonteCarlo"
    is_sampled = True
    takes_turns = True

    kind: Literal["monte_carlo"]
    num_continuations: Count
    identical_prefixes: IdenticalPrefixes
    states: StatesConfig | None

    @property
    def monte_carlo(self) -> "MonteCarloValues":
        return self


@dataclass(frozen=True)
class GroupMeanValues(Values):
    """The mean reward of the problem's other rollouts, at every state."""

    implementation = "group_mean:GroupMean"
    takes_turns = True

    kind: Literal["group_mean"]


@dataclass(frozen=True)
class ShrunkMeanValues(Values):
    """The same, drawn towards the mean of other problems."""

    implementation = "shrunk_mean:ShrunkMean"
    takes_turns = True

    kind: Literal["shrunk_mean"]
    replay_iterations: CountOrZero  # earlier ones, whose problems count as well


@dataclass(frozen=True)
class FusedValues(Values):
    """Another predictor's value of the prompt, and the others' mean reward by its evidence."""

    implementation = "fused:Fused"
    is_probability = True

    kind: Literal["fused"]
    prior: Name  # the other predictor: "critic" is the estimator's own

    @property
    def values_of(self) -> str:
        return self.prior


@dataclass(frozen=True, kw_only=True)
class ReturnsReader(Values):
    """One that reads the returns of the continuations that another samples, and samples none."""

    takes_some_states: ClassVar[bool] = False  # does without the returns of the others

    of: Name  # the other: "monte_carlo" is the estimator's own

    @property
    def returns_of(self) -> str | None:
        return self.of


@dataclass(frozen=True, kw_only=True)
class PooledValues(ReturnsReader):
    """The returns of all rollouts that pass a state, with the continuations sampled there."""

    implementation = "pooled:Pooled"
    takes_turns = True

    kind: Literal["pooled"]


@dataclass(frozen=True, kw_only=True)
class ShrunkValues(ReturnsReader):
    """Mean returns drawn towards the siblings' mean reward, or the value of the state before."""

    implementation = "shrunk:Shrunk"
    takes_turns = True

    kind: Literal["shrunk"]
    toward: Literal["siblings", "previous"]


@dataclass(frozen=True, kw_only=True)
class SmoothedValues(ReturnsReader):
    """A level that jumps now and then along the rollout, inferred from all its returns."""

    implementation = "smoothed:Smoothed"
    is_probability = True

    kind: Literal["smoothed"]
    change: Fraction  # the probability that a step changes the value
    direction: Literal["causal", "both"]  # what is looked at: states up to it, or later ones too


@dataclass(frozen=True, kw_only=True)
class ProbeValues(ReturnsReader):
    """A small network on the policy's uncertainty or hidden states, fitted to returns."""

    implementation = "probe:Probe"
    is_probability = True
    takes_some_states = True

    of: Name | None  # type: ignore[assignment]  # null: it learns from the rewards alone
    kind: Literal["probe"]
    features: Literal["uncertainty", "hidden", "both"]
    size: Count  # of its hidden layer
    learning_rate: PositiveFraction
    weight_decay: NonNegative
    num_steps: Count  # of Adam, a fit
    batch_size: Count  # states a step
    replay_iterations: Count  # earlier ones, whose returns count as well
    num_folds: Count  # of an iteration's problems; 1: values by earlier iterations alone
    crossed: (
        bool  # a rollout's value is what the problem's other rollouts tell of it, at their ends
    )


@dataclass(frozen=True)
class OracleValues(Values):
    """The closed form of a task that has one (`worded`), at the policy's measured skill."""

    implementation = "oracle:Oracle"
    is_exact = True

    kind: Literal["oracle"]
    half_life: Positive  # iterations after which a measured result counts half


@dataclass(frozen=True, kw_only=True)
class ChoiceValues(Values):
    """A model of the policy's choices, learned from rewards (`values/choice_values.py`)."""

    gives = "tokens"
    is_martingale = True

    num_candidates: Count  # tokens a place, the likeliest; all others count as one
    learning_rate: PositiveFraction
    weight_decay: NonNegative
    num_steps: Count  # of Adam, an iteration
    batch_size: Count  # rollouts a step
    replay_iterations: Count  # whose rollouts it learns from


@dataclass(frozen=True, kw_only=True)
class PosteriorValues(ChoiceValues):
    """Ratios of the policy to a model of what it chooses when it succeeds."""

    implementation = "posterior:Posterior"
    is_probability = True

    kind: Literal["posterior"]
    size: Count  # of the model's one hidden layer


@dataclass(frozen=True, kw_only=True)
class PrivilegedValues(ChoiceValues):
    """A pointer into the true answer, with which a choice is compared."""

    implementation = "privileged:Privileged"
    is_probability = True

    kind: Literal["privileged"]


@dataclass(frozen=True)
class RewardModelValues(Values):
    """A frozen reward model's score of the response so far."""

    implementation = "reward_model:ScoredStates"
    gives = "tokens"

    kind: Literal["reward_model"]
    path: Name
    output: Literal["score", "probability"]  # "probability": the score's sigmoid


@dataclass(frozen=True)
class GenerativeTraining:
    """REINFORCE on the answers of an iteration, with the policy's optimizer, after its update."""

    learning_rate: PositiveFraction
    num_epochs: Count
    batch_size: Count  # answers of one update, over all ranks
    regression_coef: NonNegative  # of the likelihood of the number that would have been right


@dataclass(frozen=True)
class GenerativeValues(Values):
    """What the policy writes of a state when asked: reasons up to a budget, then a score."""

    implementation = "generated:Generative"
    is_probability = True
    is_sampled = True

    kind: Literal["generative"]
    num_samples: Count  # answers of a state, whose mean is the value
    question: Name  # behind the state
    think_tokens: CountOrZero  # of the reasons, at most
    think_end: str  # ends the reasons; put in where the policy has not written it
    score_prompt: str  # put in behind the reasons
    score_tokens: Count  # of the score, at most
    score_end: str  # what must follow the number; "": anything may
    score_of: Positive  # the number that means a value of 1
    unread: Fraction  # the value of an answer without a number
    training: GenerativeTraining | None  # null: zero-shot


@dataclass(frozen=True)
class PythonValues(Values):
    """A file with a class `Predictor` (docs/extending.md)."""

    implementation = "own:OwnPredictor"
    takes_turns = True

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `Predictor`


@dataclass(frozen=True)
class SquaredError:
    """½ (V − target)², the larger of it and of V kept within `clip` of its old value."""

    kind: Literal["squared_error"]
    clip: Positive | None

    @property
    def bounds(self) -> None:
        """The head's output is the value, which has none."""
        return None


@dataclass(frozen=True)
class CrossEntropy:
    """V = low + (high − low) · sigmoid(head), trained by binary cross-entropy."""

    kind: Literal["cross_entropy"]
    low: Annotated[float, Field(allow_inf_nan=False)]
    high: Annotated[float, Field(allow_inf_nan=False)]

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class CriticCommon(Values):
    gives: ClassVar[Literal["tokens", "steps"]] = "tokens"

    loss: Annotated[SquaredError | CrossEntropy, Field(discriminator="kind")]
    head_init: Literal["normal", "zero", "mean"]  # of a new head (`values/heads.py`)
    # The first iterations, which train the critic alone; as many as there are: only that.
    warmup_iterations: CountOrZero


@dataclass(frozen=True)
class RolloutsInView:
    """Other rollouts of the problem: in the text `right`, or `wrong`, around their {response}."""

    num: Count  # rollouts
    max_tokens: Count  # the last of each
    right: Name
    wrong: Name


@dataclass(frozen=True)
class ViewConfig:
    """What a critic sees beside prompt and response (`vineppo/values/view.py`).

    The template holds some of {answer}, {solution}, {percent} and {rollouts}; `rollouts` is null
    where it does not hold the last.
    """

    template: Name
    place: Literal["before_prompt", "before_response"]
    rollouts: RolloutsInView | None

    @property
    def has_siblings(self) -> bool:
        """Whether it tells of the problem's other rollouts."""
        return "{percent}" in self.template or "{rollouts}" in self.template


@dataclass(frozen=True, kw_only=True)
class SeparateCritic(AdamConfig, CriticCommon):
    """A value model of its own, with its own update; `path` null: from the starting policy.

    A reward model (`*ForSequenceClassification`, one label) keeps its head; a causal LM gets a
    new one.
    """

    implementation = "separate:SeparateValueModel"
    takes_turns = True

    kind: Literal["separate"]
    path: Name | None
    view: ViewConfig | None  # null: prompt and response alone
    # The predictor whose continuations' returns it learns; null: from the rollouts' rewards.
    learns_from: Name | None
    # Of the head, on the schedule of `learning_rate`; null: that of all. Before a head at zero has
    # grown no gradient passes it.
    head_learning_rate: PositiveFraction | None

    @property
    def returns_of(self) -> str | None:
        return self.learns_from

    @property
    def own_model(self) -> "SeparateCritic":
        return self

    @property
    def learns(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class YesNoCritic(SeparateCritic):
    """One that is asked a question before every step: P(yes) of P(yes) + P(no).

    The head starts as the difference of the two tokens' output rows, whatever `head_init` says.
    """

    implementation = "yes_no:YesNo"
    takes_turns = False
    gives = "steps"

    kind: Literal["yes_no"]  # type: ignore[assignment]
    question: Name  # after the state, in the model's words
    yes: Name  # each one token
    no: Name
    trained: bool  # by cross-entropy on the rewards; false: zero-shot

    @property
    def learns(self) -> bool:
        return self.trained

    def __post_init__(self) -> None:
        if not self.trained:
            object.__setattr__(self, "implementation", "yes_no:ZeroShot")


@dataclass(frozen=True, kw_only=True)
class EnsembleCritic(SeparateCritic):
    """Several of them, each trained on its share of every problem's rollouts, and their mean."""

    implementation = "ensemble:Ensemble"

    kind: Literal["ensemble"]  # type: ignore[assignment]
    num: Count  # of critics, at most as many as rollouts.num_samples
    # Shares of an iteration's tokens, by how far the critics differ: those that they agree on most
    # train nothing, those that they agree on least get no entropy bonus.
    agreed: Fraction
    disputed: Fraction


@dataclass(frozen=True, kw_only=True)
class SharedCritic(CriticCommon):
    """A scalar head on the policy's backbone, trained in the policy's update."""

    implementation = "shared:SharedValueHead"
    takes_turns = True

    kind: Literal["shared"]
    coef: Positive  # of the value loss beside the policy's
    head_learning_rate: PositiveFraction


CriticConfig = Annotated[
    SeparateCritic | EnsembleCritic | SharedCritic, Field(discriminator="kind")
]

PredictorConfig = Annotated[
    MonteCarloValues
    | GroupMeanValues
    | ShrunkMeanValues
    | FusedValues
    | PooledValues
    | ShrunkValues
    | SmoothedValues
    | ProbeValues
    | SeparateCritic
    | EnsembleCritic
    | YesNoCritic
    | OracleValues
    | PosteriorValues
    | PrivilegedValues
    | RewardModelValues
    | GenerativeValues
    | PythonValues,
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class ValuesConfig:
    """Value predictors besides the estimator's own, which are "monte_carlo" and "critic".

    All are measured; `credit` names the one whose values the estimator takes, null its own.
    """

    credit: Name | None = None
    predictors: dict[FileName, PredictorConfig] = field(default_factory=dict)
