"""Shared settings: nothing is fetched, and nothing is sent."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def configs() -> Path:
    return ROOT / "configs"
