"""Python's collector of cycles, in processes that make much and hardly ever a cycle."""

from __future__ import annotations

import gc


def calm(young: int, middle: int, old: int) -> None:
    """Look for cycles seldom, by `gc.set_threshold`; not at all among what is there already."""
    gc.freeze()
    gc.set_threshold(young, middle, old)
