"""Asks the service: a job for searches and crawls, calls for creatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from webdata_nb.jobs import runner
from webdata_nb.streams import creatives_listing

if TYPE_CHECKING:
    from webdata_nb.cache.fetched import Fetched
    from webdata_nb.client.client import Client
    from webdata_nb.display.progress import Listener
    from webdata_nb.requests.call_options import CallOptions
    from webdata_nb.requests.job_spec import JobSpec


async def fetch(
    client: Client,
    spec: JobSpec,
    call: CallOptions,
    listener: Listener,
    started: Callable[[str], object],
) -> Fetched:
    """Return what the service gives; `started` is told the id where a job was started."""
    if spec.op == "creatives":
        return await creatives_listing.creatives(client, spec, call, listener)
    return await runner.run(client, spec, call, listener.report, started)
