"""Decodes server-sent events, and follows the event stream of a job, also where it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webdata_nb import errors
from webdata_nb.contract.events import Done, Event, PageDone, Progress, Ranked, StreamEvent
from webdata_nb.errors import BadAnswer
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.retry_policies import EVENT_STREAM
from webdata_nb.toolkit.client import transport
from webdata_nb.toolkit.client.transport import ApiRequest, Transport

MEDIA_TYPE: Final = "text/event-stream"
EVENT_BYTES: Final = 1 << 20

_KINDS: Final[dict[str, type[Event]]] = {
    StreamEvent.PROGRESS: Progress,
    StreamEvent.RANKED: Ranked,
    StreamEvent.PAGE: PageDone,
    StreamEvent.DONE: Done,
}
# Splitting text instead would also break at U+2028 and friends, which JSON may hold.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream, before its data is read."""

    name: str
    data: bytes


class Decoder:
    """Collects pieces of a stream into messages."""

    def __init__(self, last_event_id: str | None = None) -> None:
        self._buffer = b""
        self._after_return = False
        self._name = "message"
        self._data: list[bytes] = []
        self._id = last_event_id

    @property
    def last_event_id(self) -> str | None:
        """The id of the last event that had one."""
        return self._id

    def feed(self, piece: bytes) -> list[Message]:
        """Take the next bytes; return the messages that they complete.

        Raises
        ------
        BadAnswer
            An event is larger than 1 MiB: this is no progress stream.
        """
        messages: list[Message] = []
        if self._after_return:
            piece = piece.removeprefix(b"\n")  # the other half of a CR LF
        self._after_return = piece.endswith(b"\r")
        *lines, self._buffer = _LINE_END.split(self._buffer + piece)
        for line in lines:
            message = self._line(line)
            if message is not None:
                messages.append(message)
        if len(self._buffer) + sum(map(len, self._data)) > EVENT_BYTES:
            raise BadAnswer(f"an event of the stream is larger than {EVENT_BYTES} bytes")
        return messages

    def _line(self, line: bytes) -> Message | None:
        if not line:
            return self._complete()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _complete(self) -> Message | None:
        message = Message(self._name, b"\n".join(self._data)) if self._data else None
        self._name, self._data = "message", []
        return message


def event_of(message: Message) -> Event | None:
    """Return the contract's event, or None for one that this version does not know.

    Raises
    ------
    BadAnswer
        A known event whose data breaks the contract.
    """
    kind = _KINDS.get(message.name)
    if kind is None:
        return None
    try:
        data = decode_json(message.data)
    except MalformedJson:
        raise BadAnswer(f"the stream's {message.name!r} event is no JSON") from None
    return transport.parse(kind, data)


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
        decoder = Decoder(last_event_id)
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
    transport: Transport, path: str, decoder: Decoder
) -> AsyncGenerator[Event | None, None]:
    """Give the events of one connection, until it ends or breaks; None if no more will follow."""
    headers = {"accept": MEDIA_TYPE, "cache-control": "no-store"}
    if decoder.last_event_id is not None:
        headers["last-event-id"] = decoder.last_event_id
    request = ApiRequest("GET", path, headers=headers, timeout_s=IDLE_S)
    async with transport.stream(request) as (answer, pieces):
        if answer.status == HTTPStatus.NO_CONTENT:
            yield None
            return
        if not answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
            raise errors.NotSupported(f"{path} is no event stream", status=answer.status)
        with contextlib.suppress(errors.ConnectionFailed):
            async for piece in pieces:
                for message in decoder.feed(piece):
                    if (event := event_of(message)) is not None:
                        yield event
