"""Benchmarks of speed: ratios within one run, printed as a table and written as JSON."""

import os

# Read by torch when it is imported, which every benchmark does first.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
