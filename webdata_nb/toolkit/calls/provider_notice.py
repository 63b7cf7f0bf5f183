"""Says at the first search of a home which providers it asks, and how to add one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from webdata_nb.contract.replies import EngineEntry
from webdata_nb.errors import WebdataError
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.job_spec import JobSpec

_MARKER: Final = "providers-announced"
_DEFAULT_ENGINE: Final = "engine_one"
_LOCAL_INDEX: Final = "local"
_PUBLIC_PAGE: Final = "ddgs."


async def announce_providers(
    client: Client, spec: JobSpec, options: CallOptions, listener: Listener
) -> None:
    """Let the listener show the providers of a search, once per home without own providers."""
    if not _may_announce(spec, options):
        return
    marker = options.settings.data_dir / _MARKER
    if await asyncio.to_thread(os.path.exists, marker):
        return
    try:
        entries = await client.engines()
    except WebdataError:
        return  # the search itself says what is wrong
    text = provider_notice(entries, spec.body.get("engine") or _DEFAULT_ENGINE)
    if not text:
        return
    if await asyncio.to_thread(_created, marker):
        listener.update(notice=text)


def _may_announce(spec: JobSpec, options: CallOptions) -> bool:
    settings = options.settings
    # The inputs of one call are silent themselves; the listener of the call shows their notice.
    silent = settings.progress is False and options.also is None
    configured = bool(settings.base_url or settings.providers or settings.engines)
    return spec.op == "search" and not silent and not configured


def provider_notice(entries: Sequence[EngineEntry], engine: str) -> str:
    """Return the sentence about the usable web providers of an engine; empty without any."""
    names = [
        entry.provider.removeprefix(_PUBLIC_PAGE)
        for entry in entries
        if entry.engine == engine and entry.usable and entry.provider != _LOCAL_INDEX
    ]
    if not names:
        return ""
    return (
        f"Searches ask {', '.join(names)}, in this order. To add a provider, set its key, such as "
        "WEBDATA_BRAVE_KEY; engines_df() lists all."
    )


def _created(marker: Path) -> bool:
    """Create the marker; False where another call has created it, or nothing can be written."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    return True
