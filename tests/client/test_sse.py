"""The event stream's decoder: however the bytes are cut, the same events."""

from __future__ import annotations

import pytest

from webdata_nb.contract.events import Done, PageDone, Progress
from webdata_nb.errors import BadAnswer
from webdata_nb.toolkit.client.transport import EVENT_BYTES, Decoder, Message, event_of

STREAM = (
    b": keep-alive\n\n"
    b"event: progress\r\nid: 1\r\ndata: one\r\ndata:  two\r\n\r\n"
    b"id: 2\rdata:\xe2\x80\xa8split here?\r\r"
    b"event: nothing\n\n"
    b"data\nid: bad\0id\nretry: 10\n\n"
)
MESSAGES = [
    Message("progress", b"one\n two"),
    Message("message", b"\xe2\x80\xa8split here?"),
    Message("message", b""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_messages_do_not_depend_on_how_the_bytes_arrive(size: int) -> None:
    decoder = Decoder()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [message for piece in pieces for message in decoder.feed(piece)] == MESSAGES
    assert decoder.last_event_id == "2"


def test_half_an_emoji_in_an_event_is_replaced() -> None:
    data = rb'{"job_id": "j", "position": 0, "url": "http://x/\ud83d", "success": true}'
    assert event_of(Message("page", data)) == PageDone(
        job_id="j", position=0, url="http://x/\ufffd", success=True
    )


def test_an_unfinished_event_is_not_given() -> None:
    assert Decoder().feed(b"data: half\n") == []


def test_an_endless_event_is_refused() -> None:
    decoder = Decoder()
    for _ in range(EVENT_BYTES // 65536):
        decoder.feed(b"x" * 65536)
    with pytest.raises(BadAnswer, match="larger than"):
        decoder.feed(b"x")


def test_events_of_the_contract() -> None:
    progress = event_of(
        Message("progress", b'{"job_id":"j","type":"crawl","status":"running","completed":3}')
    )
    assert isinstance(progress, Progress)
    assert (progress.completed, progress.total) == (3, None)
    page = event_of(Message("page", b'{"job_id":"j","position":0,"url":"u","success":true}'))
    assert isinstance(page, PageDone)
    done = event_of(Message("done", b'{"job_id":"j","status":"completed"}'))
    assert isinstance(done, Done)
    assert event_of(Message("of_tomorrow", b"{}")) is None


@pytest.mark.parametrize(
    ("data", "field"),
    [(b"{", None), (b"{}", "job_id"), (b'{"job_id":"j","status":"odd"}', "status")],
)
def test_a_known_event_that_breaks_the_contract(data: bytes, field: str | None) -> None:
    with pytest.raises(BadAnswer) as caught:
        event_of(Message("done", data))
    assert caught.value.field == field
