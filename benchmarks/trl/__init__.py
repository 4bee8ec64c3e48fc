"""Processes of `benchmarks/trl_grpo.py`: three, two of them in TRL's environment."""
