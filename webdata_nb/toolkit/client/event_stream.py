"""Follows a job's event stream, and opens it again where it breaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Final

from webdata_nb import errors
from webdata_nb.contract.events import Done, Event
from webdata_nb.pacing.retry_policies import EVENT_STREAM
from webdata_nb.toolkit.client import sse
from webdata_nb.toolkit.client.http import ApiRequest
from webdata_nb.toolkit.client.transport import Transport

IDLE_S: Final = 45.0
REOPENED: Final = 3


async def follow(
    transport: Transport, path: str, last_event_id: str | None = None
) -> AsyncGenerator[Event, None]:
    """Give the events of a stream up to its `Done`, or up to the id behind which nothing follows.

    A stream that breaks, ends early or sends nothing at all for 45 s is opened again behind its
    last event; three times in a row without a new event, and it is given up.

    Raises
    ------
    NotSupported
        The answer is no event stream.
    ConnectionFailed
        It broke too often.
    """
    failures = 0
    while failures <= REOPENED:
        if failures:
            await asyncio.sleep(EVENT_STREAM.delay_s(failures))
        failures += 1
        decoder = sse.Decoder(last_event_id)
        async with contextlib.aclosing(_connection_events(transport, path, decoder)) as events:
            async for event in events:
                if event is None:
                    return
                failures = 0
                yield event
                if isinstance(event, Done):
                    return
        last_event_id = decoder.last_event_id
    raise errors.ConnectionFailed(f"the event stream {path} keeps breaking off")


async def _connection_events(
    transport: Transport, path: str, decoder: sse.Decoder
) -> AsyncGenerator[Event | None, None]:
    """Give the events of one connection, until it ends or breaks; None if no more will follow."""
    headers = {"accept": sse.MEDIA_TYPE, "cache-control": "no-store"}
    if decoder.last_event_id is not None:
        headers["last-event-id"] = decoder.last_event_id
    request = ApiRequest("GET", path, headers=headers, timeout_s=IDLE_S)
    async with transport.stream(request) as (answer, pieces):
        if answer.status == HTTPStatus.NO_CONTENT:
            yield None
            return
        if not answer.headers.get("content-type", "").startswith(sse.MEDIA_TYPE):
            raise errors.NotSupported(f"{path} is no event stream", status=answer.status)
        with contextlib.suppress(errors.ConnectionFailed):
            async for piece in pieces:
                for message in decoder.feed(piece):
                    if (event := sse.event_of(message)) is not None:
                        yield event
