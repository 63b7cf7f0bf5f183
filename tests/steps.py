"""Runs computations in steps at once."""

from __future__ import annotations

from webdata_nb.service.runtime.steps import Result, Steps


def run_to_completion(steps: Steps[Result]) -> Result:
    """Run a generator to its end without interruption, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
