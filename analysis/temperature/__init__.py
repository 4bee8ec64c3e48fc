"""`temperature`: how well algorithms train at several temperatures, and where their policies last.

A sweep makes the runs (`vineppo sweep configs/sweeps/temperature.jsonnet`).
"""

from analysis.temperature.command import run

__all__ = ["run"]
