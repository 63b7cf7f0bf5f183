"""From a persisted job to its end: claim, lease, run, publish, finish."""
