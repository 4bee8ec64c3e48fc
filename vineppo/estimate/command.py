"""What `vineppo estimate` prints."""

import argparse
import json
from collections.abc import Sequence

from vineppo.config.load import assign, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.estimate.assemble import Estimate, Machine, estimate, read_models
from vineppo.estimate.options import check_options
from vineppo.estimate.passes import longest_response
from vineppo.estimate.report import as_dict, as_text
from vineppo.estimate.work import Lengths


def print_estimate(options: argparse.Namespace) -> None:
    """As text, or as JSON where `options.json`."""
    (found,) = estimates(options.config, options, [options.num_gpus])
    print(json.dumps(as_dict(found), indent=2) if options.json else as_text(found))


def estimates(path: str, options: argparse.Namespace, gpus: Sequence[int]) -> list[Estimate]:
    """Of the config at `path` on each of `gpus`.

    Raises `UserError` for a mistake in the options or the config.
    """
    check_options(options)
    config = load_either(path, options.assignments)
    models = read_models(config, options.model_config)
    response = options.response_share * longest_response(config)
    lengths = Lengths(options.prompt_tokens, response, options.steps)
    rates = options.gpu_gib, options.tokens_per_s, options.train_tflops
    return [estimate(config, models, Machine(count, *rates), lengths) for count in gpus]


def load_either(path: str, assignments: list[str]) -> TrainConfig | SftConfig:
    """A config of `vineppo train`, which has `rollouts`, or of `vineppo sft`, which has none."""
    resolved = evaluate_jsonnet(path)
    for assignment in assignments:
        assign(resolved, assignment)
    if "rollouts" in resolved:
        return parse_config(TrainConfig, resolved)
    return parse_config(SftConfig, resolved)
