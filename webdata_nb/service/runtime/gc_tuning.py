"""Configures the garbage collector for processes that rarely create reference cycles."""

from __future__ import annotations

import gc


def pause_gc() -> None:
    """Stop collections until `configure_gc`: imports create many objects and no garbage."""
    gc.disable()


def configure_gc(generation_0: int, generation_1: int, generation_2: int) -> None:
    """Set the thresholds of `gc.set_threshold`, and exclude all existing objects."""
    gc.freeze()
    gc.set_threshold(generation_0, generation_1, generation_2)
    gc.enable()
