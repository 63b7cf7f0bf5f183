"""The files of `deploy/` are valid, and their commands work without containers."""
