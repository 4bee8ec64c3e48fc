"""What `benchmarks/trl_grpo.py` runs: three processes, two of them in TRL's environment."""
