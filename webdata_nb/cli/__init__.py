"""The `webdata` command."""
