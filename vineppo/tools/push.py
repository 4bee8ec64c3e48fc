"""`vineppo push RUN --to PLACE`: a run's models with a model card, for others.

    config.json  model.safetensors  tokenizer…     the policy, as transformers loads it
    critic/  adapter/  …                           what else the run saved
    README.md                                      the model card
    run/config.json  run/metrics.jsonl  run/evaluations/  run/own_files.json

environment.json stays at home because it has the command line; the card names versions and commit.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import named_errors, read_json, strict_json
from vineppo.tools.evaluate_run import choose_policies

HUB = "hub:"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
ALONG = ("metrics.jsonl", "own_files.json", "evaluations/**/iter_*.json")


def push(run_path: Path, to: str, is_public: bool) -> None:
    """Writes to the directory `to`, or pushes to "hub:OWNER/NAME"; prints where it is.

    Raises `UserError` for a run without config or checkpoint, for a directory that is not empty,
    and if the hub refuses.
    """
    is_hub, name, target = to.startswith(HUB), to.removeprefix(HUB), Path(to)
    if is_hub and HUB_NAME.fullmatch(name) is None:
        raise UserError(f"--to must be a directory or {HUB}OWNER/NAME, got {to}")
    if not is_hub and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"--to must be a new or empty directory, got {to}")
    with named_errors("write", target):
        if not is_hub:
            target.parent.mkdir(parents=True, exist_ok=True)
        place = None if is_hub else target.parent
        with tempfile.TemporaryDirectory(dir=place, prefix=".push-") as folder:
            model = Path(folder) / "model"
            write_model(run_path, model, name)
            if is_hub:
                upload(model, name, is_public)
            else:
                model.replace(target)
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
    """Makes the directory `target`; `name` is what the card calls it."""
    run = RunDir(run_path)
    if not run.config_path.is_file():
        raise UserError(f"not a run directory (no config.json): {run_path}")
    ((iteration, policy),) = choose_policies(run, "last")
    config = run.read_config()
    shutil.copytree(policy, target)
    for folder in policy.parent.iterdir():
        if folder.is_dir() and folder.name not in ("policy", "trainer"):
            shutil.copytree(folder, target / folder.name)
    adapter = target / "adapter" / "adapter_config.json"
    if adapter.exists():  # peft names the base by where it lay
        named = read_json(adapter) | {"base_model_name_or_path": config["model"]["path"]}
        adapter.write_bytes(strict_json(named, indent=2))
    for file in (file for pattern in ALONG for file in run.path.glob(pattern)):
        copy = target / "run" / file.relative_to(run.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (target / "run" / "config.json").write_bytes(strict_json(config, indent=2))
    (target / "README.md").write_text(card(run, config, iteration, name))


def card(run: RunDir, config: Mapping[str, Any], iteration: int, name: str) -> str:
    """The model card: training, accuracy, use, and the command to train it again."""
    credit = config["credit"]["kind"] if "credit" in config else None
    command = "train" if credit else "sft"
    prompt = json.dumps(config["task"]["prompt"], ensure_ascii=False)
    sampling = json.dumps(config["sampling"])
    return f"""---
{head(config, credit)}
---

# {config["name"]}

A policy after {iteration} iterations of `vineppo {command}` (credit: {credit or "none"}). All
settings are in `run/config.json`, all metrics in `run/metrics.jsonl`.

## Accuracy

| iteration | pass@1 | pass@k | problems | temperature |
| --- | --- | --- | --- | --- |
{accuracies(run)}

## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

policy = AutoModelForCausalLM.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")
```

The prompts were `{prompt}`. Responses were sampled with `{sampling}`, which `generate` has to be
told. transformers reads the files from version 4.57 on, or from the version that brought the
architecture in `config.json`.

## Train it again

```
vineppo {command} run/config.json --run-dir runs/{config["name"]}
```

{origin(run)}
"""


def head(config: Mapping[str, Any], credit: str | None) -> str:
    """The card's metadata, in YAML."""
    from huggingface_hub import ModelCardData

    path = config["model"]["path"]
    is_hub = path is not None and HUB_NAME.fullmatch(path) and not Path(path).exists()
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=path if is_hub else None,
        datasets=[config["task"]["hub_path"]] if config["task"].get("hub_path") else None,
        tags=["vineppo", *(["reinforcement-learning", credit] if credit else ["sft"])],
    )
    yaml: str = data.to_yaml()
    return yaml


def accuracies(run: RunDir) -> str:
    """A row for every evaluation of the run itself; 0 is the starting policy."""
    rows = []
    for iteration in run.iterations("evaluations"):
        found = run.read_evaluation(iteration)
        k = found["samples_per_problem"]
        rows.append(
            f"| {iteration} | {found['pass@1']:.3f} | {found[f'pass@{k}']:.3f} (k = {k}) | "
            f"{found['num_problems']} | {found['temperature']:g} |"
        )
    return "\n".join(rows)


def origin(run: RunDir) -> str:
    """Versions, commit, hardware and the SHA-256 of a user's own files."""
    environment = run.read_environment()
    source, hardware = environment["source"], environment["hardware"]
    lines = []
    if source is not None:
        dirty = ", with changes" if source["is_dirty"] else ""
        lines.append(f"vineppo at commit {source['commit']}{dirty}")
    versions = [f"{name} {version}" for name, version in environment["packages"].items()]
    lines.append(f"Python {environment['python']}, {', '.join(versions)}")
    gpus = [gpu["name"] for gpu in hardware["gpus"]]
    lines.append(f"{', '.join(gpus) or hardware['cpu']}, {hardware['num_cores_allowed']} cores")
    user_files = run.path / "own_files.json"
    if user_files.exists():
        for path, digest in read_json(user_files)["sha256"].items():
            lines.append(f"needs `{path}`, which is not here (SHA-256 {digest})")
    return "\n".join(f"- {line}" for line in lines)
