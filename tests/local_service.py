"""Stops a local service, with a deadline for a loaded machine."""

from __future__ import annotations

from typing import Final

from webdata_nb.settings import Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

_DEADLINE_S: Final = 120.0


def stop(settings: Settings) -> bool:
    """Stop the local service and wait for its end; return whether one was running."""
    return bool(synced(local.stop)(settings, deadline_s=_DEADLINE_S))
