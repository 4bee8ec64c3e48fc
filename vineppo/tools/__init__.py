"""Commands around a run: they read configs and run directories, and training imports none."""
