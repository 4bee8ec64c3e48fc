"""`vineppo push RUN --to PLACE`: a run's models with a model card, for others.

    config.json  model.safetensors  tokenizer…     the policy, as transformers loads it
    critic/  adapter/  …                           what else the run saved beside it
    README.md                                      the model card
    run/config.json  run/metrics.jsonl  run/evaluations/  run/own_files.json

environment.json stays at home, because it has the command line: the card names versions, commit and
hardware.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import named_errors, read_json, strict_json
from vineppo.tools.evaluate import choose_policies

HUB = "hub:"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
ALONG = ("metrics.jsonl", "own_files.json", "evaluations/**/iter_*.json")


def push(run_path: Path, to: str, is_public: bool) -> None:
    """Writes to the directory `to`, or pushes to "hub:OWNER/NAME"; prints where it is.

    Raises `UserError` for what is no run or has no checkpoint, for a directory that is not empty,
    and if the hub refuses.
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
    for file in (file for pattern in ALONG for file in run.path.glob(pattern)):
        copy = target / "run" / file.relative_to(run.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (target / "run").mkdir(exist_ok=True)
    (target / "run" / "config.json").write_bytes(strict_json(run.read_config(), indent=2))
    (target / "README.md").write_text(card(run, iteration, name))


def card(run: RunDir, iteration: int, name: str) -> str:
    """The model card: what trained, how well, how to use it and to train it again."""
    config = run.read_config()
    credit = config["credit"]["kind"] if "credit" in config else None
    command = "train" if credit else "sft"
    return "\n\n".join(
        [
            f"---\n{front_matter(config, credit)}---",
            f"# {config['name']}",
            f"A policy after {iteration} iterations of `vineppo {command}`"
            f"{f' (credit: {credit})' if credit else ''}. All settings are in `run/config.json`, "
            "all metrics in `run/metrics.jsonl`.",
            "## Accuracy",
            table(("iteration", "pass@1", "pass@k", "problems", "temperature"), accuracies(run)),
            "## Use",
            "```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
            f'policy = AutoModelForCausalLM.from_pretrained("{name}")\n'
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")\n```',
            f"The prompts were `{json.dumps(config['task']['prompt'], ensure_ascii=False)}`.",
            "## Train it again",
            f"```\nvineppo {command} run/config.json --run-dir runs/{config['name']}\n```",
            "\n".join(f"- {line}" for line in origin(run)) + "\n",
        ]
    )


def front_matter(config: Mapping[str, Any], credit: str | None) -> str:
    """The YAML that the hub reads."""
    from huggingface_hub import ModelCardData

    task, path = config["task"], config["model"]["path"]
    is_hub = path is not None and HUB_NAME.fullmatch(path) and not Path(path).exists()
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=path if is_hub else None,
        datasets=[task["hub_path"]] if task.get("hub_path") else None,
        tags=["vineppo", *(["reinforcement-learning", credit] if credit else ["sft"])],
    )
    return f"{data.to_yaml()}\n"


def accuracies(run: RunDir) -> Iterator[tuple[str, ...]]:
    """A row for every evaluation of the run itself; 0 is the starting policy."""
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


def origin(run: RunDir) -> Iterator[str]:
    """Versions, commit, hardware and the SHA-256 of a user's own files."""
    environment = run.read_environment()
    source, hardware = environment["source"], environment["hardware"]
    if source is not None:
        dirty = ", with changes" if source["is_dirty"] else ""
        yield f"vineppo at commit {source['commit']}{dirty}"
    versions = [f"{name} {version}" for name, version in environment["packages"].items()]
    yield f"Python {environment['python']}, {', '.join(versions)}"
    gpus = [gpu["name"] for gpu in hardware["gpus"]]
    yield f"{', '.join(gpus) or hardware['cpu']}, {hardware['num_cores_allowed']} cores"
    own = run.path / "own_files.json"
    if own.exists():
        for path, digest in read_json(own)["sha256"].items():
            yield f"needs `{path}`, which is not here (SHA-256 {digest})"


def table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
