"""What `benchmarks/trl_grpo.py` runs: two resident processes, one of them in TRL's environment."""
