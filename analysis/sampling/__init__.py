"""Sampling and passes with a run's policies. It needs torch; import it where something samples."""
