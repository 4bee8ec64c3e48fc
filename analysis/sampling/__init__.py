"""Sampling and passes with a run's policies and critics.

Only this package needs torch and vllm (but for `journal.py`); import it within the function that
samples.
"""
