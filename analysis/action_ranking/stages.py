"""The two stages of a table's sampling: next steps at every state, then what follows each."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.sampling.alternatives import Alternative, sample_alternatives
from analysis.sampling.continuations import Returns, StateRequest, sample_returns
from analysis.sampling.journal import Journal
from analysis.sampling.meter import Meter
from analysis.sampling.policies import Policies
from analysis.sampling.states import RolloutState
from vineppo.segment import Segmenter

STREAM = "action-ranking"  # no random number of another analysis comes again
Line = dict[str, Any]
Cost = dict[str, float]


@dataclass(frozen=True)
class Job:
    """The states of one checkpoint, each named by its place; the engine holds the policy."""

    policies: Policies
    states: Sequence[RolloutState]
    journal: Journal
    settings: Mapping[str, Any]
    title: str

    def request(
        self, place: int, step_ids: tuple[int, ...], num_samples: int, kind: str, tag: object
    ) -> StateRequest:
        """Continuations of a state and a step after it; `kind` keeps their random numbers apart."""
        state = self.states[place]
        return StateRequest(
            self.policies.prompt(state.row["problem_id"]),
            (*state.prefix_ids, *step_ids),
            num_samples,
            (self.settings["checkpoint"], STREAM, kind),
            tag,
        )


def propose(job: Job, segmenter: Segmenter) -> tuple[dict[int, list[Alternative]], Cost]:
    """The first distinct next steps at every state, by its place."""
    found = {
        line["state"]: [
            Alternative(**one | {"step_ids": tuple(one["step_ids"])})
            for one in line["alternatives"]
        ]
        for line in job.journal.lines
        if "alternatives" in line
    }
    requests = [
        job.request(place, (), job.settings["num_proposals"], "proposals", place)
        for place in range(len(job.states))
        if place not in found
    ]
    sampler, limit = job.policies.sampler, job.settings["num_alternatives"]
    title = f"{job.title}, next steps"
    with Meter(title, len(job.states), len(found), sampler.engine) as meter:

        def keep(request: StateRequest, alternatives: list[Alternative]) -> None:
            assert isinstance(request.tag, int)
            found[request.tag] = alternatives
            listed = [asdict(alternative) for alternative in alternatives]
            job.journal.append({"state": request.tag, "alternatives": listed})
            meter.advance()

        sample_alternatives(sampler, segmenter, requests, limit, keep, meter.tick)
        return found, cost(meter)


def follow(
    job: Job, alternatives: Mapping[int, Sequence[Alternative]]
) -> tuple[dict[tuple[int, int], dict[str, Line]], Cost]:
    """Returns after every alternative that does not end its response: lines by kind.

    The keys are (place of the state, index of the alternative), the kinds "truth" and "draws".
    """
    found: dict[tuple[int, int], dict[str, Line]] = {}
    for line in job.journal.lines:
        if "kind" in line:
            found.setdefault((line["state"], line["alternative"]), {})[line["kind"]] = line
    kinds = {"truth": job.settings["num_samples"], "draws": job.settings["num_draws"]}
    tags = [
        (place, index, kind)
        for place, of in sorted(alternatives.items())
        for index, alternative in enumerate(of)
        if alternative.final_return is None
        for kind in kinds
    ]
    missing = [tag for tag in tags if tag[2] not in found.get(tag[:2], {})]
    requests = (
        job.request(place, alternatives[place][index].step_ids, kinds[kind], kind, tag)
        for tag in missing
        for place, index, kind in [tag]
    )
    engine = job.policies.sampler.engine
    with Meter(f"{job.title}, returns", len(tags), len(tags) - len(missing), engine) as meter:

        def keep(request: StateRequest, returns: Returns) -> None:
            assert isinstance(request.tag, tuple)
            place, index, kind = request.tag
            line = {
                "state": place,
                "alternative": index,
                "kind": kind,
                "num_correct": sum(returns.returns_K),
                "num_truncated": returns.num_truncated,
                "num_tokens": returns.num_tokens,
                "returns": returns.returns_K if kind == "draws" else (),
            }
            found.setdefault((place, index), {})[kind] = line
            job.journal.append(line)
            meter.advance()

        sample_returns(job.policies.sampler, requests, keep, meter.tick)
        return found, cost(meter)


def cost(meter: Meter) -> Cost:
    return {
        "num_tokens": meter.num_tokens,
        "time_s": meter.time_s,
        "tokens_per_s": meter.tokens_per_s,
    }
