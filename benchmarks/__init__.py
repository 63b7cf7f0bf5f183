"""Programs that measure this package against named peers, each in one run."""
