"""Tests share these small runs, processes, doubles and numbers. No test imports another."""
