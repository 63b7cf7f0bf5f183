"""Checks the arguments of a call and builds its typed request."""
