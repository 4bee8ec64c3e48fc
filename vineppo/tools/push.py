"""`vineppo push RUN --to PLACE`: a run's policy and critics with a model card, for others.

    config.json  model.safetensors  tokenizer…     the policy, as transformers loads it
    critic/  adapter/  …                           what else the run saved beside it
    README.md  run/learning_curve.png              the model card
    run/config.json  run/metrics.jsonl  run/evaluations/  run/analysis/  run/own_files.json

environment.json, which has the command line and paths of a machine, stays at home: the card names
versions, commit and hardware.
"""

import csv
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.evaluate import choose_policies
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import named_errors, read_json, strict_json

HUB = "hub:"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
REWARD = "reward/mean"
# Of a value predictor, as `python -m analysis value-accuracy` writes them.
ACCURACY = ("mae", "mse_corrected", "pearson_within", "accuracy")
ALONG = (
    "metrics.jsonl", "own_files.json", "evaluations/**/iter_*.json",
    "analysis/value-accuracy/value_accuracy.csv",
)  # fmt: skip
FACTS = (
    "model.path", "model.dtype", "model.lora", "task.kind", "task.hub_path", "task.train_path",
    "sampling", "rollouts", "credit", "critic.path", "reference.kl_coef", "num_iterations",
    "optimization.learning_rate", "self_training", "seed",
)  # fmt: skip


def push(run_path: Path, to: str, is_public: bool) -> None:
    """Writes to the directory `to`, or pushes to "hub:OWNER/NAME"; prints where it is.

    Raises `UserError` for what is no run or has no checkpoint, for a directory that is not empty,
    and where the hub refuses.
    """
    if to.startswith(HUB):
        name = to.removeprefix(HUB)
        if HUB_NAME.fullmatch(name) is None:
            raise UserError(f"--to must be a directory or {HUB}OWNER/NAME, got {to}")
        with tempfile.TemporaryDirectory() as folder:
            write_model(run_path, Path(folder), name)
            upload(Path(folder), name, is_public)
    else:
        target = Path(to)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UserError(f"--to must be a new or empty directory, got {to}")
        with named_errors("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".push-") as folder:
                whole = Path(folder) / "model"
                whole.mkdir()
                write_model(run_path, whole, to)
                whole.replace(target)
    print(f"pushed {run_path} to {to}")


def upload(folder: Path, name: str, is_public: bool) -> None:
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(name, private=not is_public, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="vineppo push")
    # The hub's failures have no common type: connection, no token, no right, a bad name.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"--to {HUB}{name}: {type(error).__name__}: {reason}") from error


def write_model(run_path: Path, target: Path, name: str) -> None:
    """Fills the empty directory `target`; `name` is what the card calls it."""
    run = RunDir(run_path)
    if not run.config_path.is_file():
        raise UserError(f"not a run directory (no config.json): {run_path}")
    ((iteration, policy),) = choose_policies(run, "last")
    shutil.copytree(policy, target, dirs_exist_ok=True)
    for folder in policy.parent.iterdir():
        if folder.is_dir() and folder.name not in ("policy", "trainer"):
            shutil.copytree(folder, target / folder.name)
    adapter = target / "adapter" / "adapter_config.json"
    if adapter.exists():  # peft names the base by where it lay
        named = read_json(adapter) | {"base_model_name_or_path": run.read_config()["model"]["path"]}
        adapter.write_bytes(strict_json(named, indent=2))
    about = target / "run"
    about.mkdir(exist_ok=True)
    for pattern in ALONG:
        for file in run.path.glob(pattern):
            copy = about / file.relative_to(run.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    (about / "config.json").write_bytes(strict_json(run.read_config(), indent=2))
    draw_curve(run, about / "learning_curve.png")
    has_critic = (target / "critic" / "config.json").exists()
    (target / "README.md").write_text(card(run, iteration, name, has_critic))


def draw_curve(run: RunDir, path: Path) -> None:
    """pass@1 from the starting policy on, and the mean reward while training."""
    from matplotlib.figure import Figure

    evaluated = run.iterations("evaluations")
    curves = {
        "pass@1": [(i, run.read_evaluation(i)["pass@1"]) for i in evaluated],
        REWARD: [
            (x["iteration"], x[REWARD]) for x in run.read_metrics() if x.get(REWARD) is not None
        ],
    }
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        if points:
            axes.plot(*zip(*points, strict=True), label=name)
    axes.set_xlabel("iteration")
    axes.legend()
    figure.savefig(path, dpi=150)


def card(run: RunDir, iteration: int, name: str, has_critic: bool) -> str:
    """The model card: what trained, on what, how well, how to use it and to train it again."""
    config = run.read_config()
    prompt = config["task"]["prompt"]
    credit = config["credit"]["kind"] if "credit" in config else None
    command = "train" if credit else "sft"
    return "\n\n".join(
        [
            front_matter(config, credit),
            f"# {config['name']}",
            f"A policy after {iteration} iterations of `vineppo {command}`"
            f"{f' (credit: {credit})' if credit else ''}. All settings are in `run/config.json`, "
            "all metrics in `run/metrics.jsonl`.",
            table(("setting", "value"), facts(config)),
            "## Accuracy",
            table(("iteration", "pass@1", "pass@k", "problems", "temperature"), accuracies(run)),
            "![by iteration](run/learning_curve.png)",
            *value_accuracy(run),
            "## Use",
            "```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
            f'policy = AutoModelForCausalLM.from_pretrained("{name}")\n'
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")\n```',
            *(use_of_critic(config, name) if has_critic else ()),
            f"Prompts were put by `{json.dumps(prompt, ensure_ascii=False)}`.",
            "## Train it again",
            f"```\nvineppo {command} run/config.json --run-dir runs/{config['name']}\n```",
            "\n".join(f"- {line}" for line in origin(run)) + "\n",
        ]
    )


def use_of_critic(config: Mapping[str, Any], name: str) -> list[str]:
    critic = config["critic"]
    if critic["kind"] not in ("separate", "shared") or critic.get("view") is not None:
        return []  # several models, or one that is shown more than the prefix
    bounded = critic["loss"]["kind"] == "cross_entropy"
    how = ": low + (high − low) · sigmoid of it, of `critic.loss`" if bounded else ""
    return [
        "```python\nfrom transformers import AutoModelForSequenceClassification\n\n"
        "critic = AutoModelForSequenceClassification.from_pretrained("
        f'"{name}", subfolder="critic")\n```',
        f"Its logit behind a prefix is the value there{how}.",
    ]


def front_matter(config: Mapping[str, Any], credit: str | None) -> str:
    """What the hub reads; JSON strings are YAML's too."""
    task, path = config["task"], config["model"]["path"]
    is_hub = path is not None and HUB_NAME.fullmatch(path) and not Path(path).exists()
    entries = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": path if is_hub else None,
        "datasets": [task["hub_path"]] if task.get("hub_path") else None,
        "tags": ["vineppo", *(["reinforcement-learning", credit] if credit else ["sft"])],
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in entries.items() if value is not None]
    return "\n".join(["---", *lines, "---"])


def facts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in FACTS:
        value: Any = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield key, f"`{json.dumps(value)}`"


def accuracies(run: RunDir) -> Iterator[tuple[str, ...]]:
    """Of every evaluation of the run itself; 0 is the starting policy."""
    for iteration in run.iterations("evaluations"):
        found = run.read_evaluation(iteration)
        k = found["samples_per_problem"]
        yield (
            str(iteration),
            f"{found['pass@1']:.3f}",
            f"{found[f'pass@{k}']:.3f} (k = {k})",
            str(found["num_problems"]),
            f"{found['temperature']:g}",
        )


def value_accuracy(run: RunDir) -> list[str]:
    """What `python -m analysis value-accuracy RUN` measured; nothing where it was not asked."""
    path = run.path / "analysis" / "value-accuracy" / "value_accuracy.csv"
    if not path.exists():
        return []
    found: dict[tuple[str, str], dict[str, str]] = {}
    with named_errors("read", path), path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["stratum"] == "boundaries":
                place = row["checkpoint"], row["predictor"]
                found.setdefault(place, {})[row["metric"]] = interval(row)
    rows = [
        (*place, *(metrics.get(metric, "") for metric in ACCURACY))
        for place, metrics in found.items()
    ]
    return [
        "## Accuracy of values",
        "Against ground truth of many continuations a state, with intervals "
        "(`run/analysis/value-accuracy`).",
        table(("checkpoint", "predictor", *ACCURACY), rows),
    ]


def interval(row: Mapping[str, str]) -> str:
    """`interval({"value": "0.1", "value_low": "0.05", …})` is "0.100 (0.050 to 0.150)"."""
    low, high = row["value_low"], row["value_high"]
    bounds = f" ({float(low):.3f} to {float(high):.3f})" if low and high else ""
    return f"{float(row['value']):.3f}{bounds}"


def origin(run: RunDir) -> Iterator[str]:
    """Versions, commit, hardware and what a user's own files were."""
    environment = run.read_environment()
    source, hardware = environment["source"], environment["hardware"]
    packages = environment["packages"]
    if source is not None:
        dirty = ", with changes" if source["is_dirty"] else ""
        yield f"vineppo at commit {source['commit']}{dirty}"
    versions = [f"{name} {version}" for name, version in packages.items()]
    yield f"Python {environment['python']}, {', '.join(versions)}"
    gpus = [gpu["name"] for gpu in hardware["gpus"]]
    yield f"{', '.join(gpus) or hardware['cpu']}, {hardware['num_cores_allowed']} cores"
    if environment["resumed"]:
        yield f"resumed {len(environment['resumed'])} times in other environments"
    own = run.path / "own_files.json"
    if own.exists():
        for path, digest in read_json(own)["sha256"].items():
            yield f"needs `{path}`, which is not here (SHA-256 {digest})"


def table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    """In Markdown; a "|" within a cell would end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines
    )
