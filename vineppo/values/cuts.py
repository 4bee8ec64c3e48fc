"""Which step boundaries of a rollout continuations are sampled from, where it is not all.

A choice sees what was sampled and never a return. The boundary before step j is known to cut by its
prefix alone with "coin". With the others it also takes what comes after: how many steps there are,
or how surprising they are. Where that says something of the reward, so does a cut, and
E[R | s_j, a cut] is not V(s_j): the advantages between cuts are then biased, those of "coin" not.
"""

import math
from collections.abc import Collection
from itertools import accumulate
from random import Random

from vineppo.config.schema import CoinCuts, StatesConfig
from vineppo.types import Rollout


def cuts_of(states: StatesConfig, rollout: Rollout, seed: int) -> Collection[int]:
    """The steps before which a rollout is cut, of 1 … S − 1, for M = `cuts`:

        coin        each with `probability`
        random      M of them, all alike
        uncertain   after the M steps whose least likely token had the lowest probability
        surprisal   the nearest to m/(M + 1) of −Σ log p over the response, m = 1 … M

    Steps of one token with log p = −1, −3, −1, −1, M = 1: "uncertain" cuts after the second, before
    step 2; "surprisal" would best cut 3 nats in, and takes step 2, 4 nats in.
    """
    boundaries = range(1, len(rollout.spans_S))
    if isinstance(states, CoinCuts):
        stream = Random(seed)
        return [step for step in boundaries if stream.random() < states.probability]
    most = min(states.cuts, len(boundaries))
    logprobs_S = [rollout.logprobs_T[span.start : span.end] for span in rollout.spans_S]
    match states.kind:
        case "random":
            return Random(seed).sample(boundaries, most)
        case "uncertain":
            return sorted(boundaries, key=lambda step: min(logprobs_S[step - 1]))[:most]
        case "surprisal":
            behind_S = [0.0, *accumulate(-math.fsum(logprobs) for logprobs in logprobs_S)]
            ideals = [behind_S[-1] * m / (states.cuts + 1) for m in range(1, states.cuts + 1)]
            return {
                min(boundaries, key=lambda step: abs(behind_S[step] - ideal))
                for ideal in ideals
                if boundaries
            }
