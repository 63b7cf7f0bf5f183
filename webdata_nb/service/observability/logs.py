"""What the service writes about itself: lines for people, or one JSON object a line.

Events, which say what happened to jobs, callers and providers, have a name and fields: see `event`.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson

LogFormat = Literal["text", "json"]
Event = Literal[
    "job_started",
    "job_ended",
    "job_stalled",
    "call_ended",
    "request_refused",
    "connection_refused",
    "provider_resting",
    "provider_recovered",
    "page_retried",
]
EVENTS: Final = "webdata_nb.service.events"
MAX_REASON_CHARS: Final = 300
# How often one thing that repeats is written.
REPEAT_S: Final = 60.0
_REMEMBERED: Final = 1000
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_PLAIN: Final = re.compile(r"[^\s\"=]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: an account, and which of its keys; a local service knows no keys."""

    account_id: str
    key_id: str | None = None


# The request that is being answered, "" outside of one; who makes it; the job that is worked on.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("webdata_request_id", default="")
CALLER: Final[ContextVar[Caller | None]] = ContextVar("webdata_caller", default=None)
JOB_ID: Final[ContextVar[str]] = ContextVar("webdata_job_id", default="")


class _Text(logging.Formatter):
    """A line for people; what a site or caller sent cannot begin another."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line, with the request and the job that it belongs to."""
        line = super().formatMessage(record)
        about = [each for each in (REQUEST_ID.get(), _job_of(record)) if each]
        shown = "".join(mark if mark.isprintable() else " " for mark in line)
        return f"{shown} [{' '.join(about)}]" if about else shown


class _Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; what a record's `fields` hold is part of it."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **vars(record).get("fields", {}),
        }
        if request := REQUEST_ID.get():
            told["request_id"] = request
        if job := _job_of(record):
            told["job"] = job
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(told, default=str).decode()


def _job_of(record: logging.LogRecord) -> str:
    """Return the job that is worked on, unless the record names it itself."""
    return "" if "job" in vars(record).get("fields", {}) else JOB_ID.get()


def configure_logging(shape: LogFormat) -> None:
    """Send everything from INFO on to standard error, in this shape."""
    handler = logging.StreamHandler()
    text = _Text("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json() if shape == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("asyncio").addFilter(_is_no_disconnect)
    # A line for each request is for machines that collect them; on a laptop it would be noise.
    requests = logging.INFO if shape == "json" else logging.WARNING
    logging.getLogger("webdata_nb.service.requests").setLevel(requests)


def _is_no_disconnect(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says of a client that hung up in the middle of an answer."""
    return record.msg != "socket.send() raised exception."


def event(name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event: as text its name and ``field=value``, as JSON its fields beside `event`.

    Parameters
    ----------
    name
        What happened.
    level
        One of the levels of `logging`.
    **fields
        Identifiers, counts, seconds and states. Nothing that a page, a request body or a provider
        says goes in here, other than through `reason`. None is left out.
    """
    said = {key: _rounded(value) for key, value in fields.items() if value is not None}
    line = " ".join([name, *(f"{key}={_shown(value)}" for key, value in said.items())])
    # As an argument: a line may hold a percent sign.
    logging.getLogger(EVENTS).log(level, "%s", line, extra={"fields": {"event": name, **said}})


def reason(text: str | None) -> str | None:
    """Return an error's text as logs may have it: cut, and of URLs only scheme and host."""
    if text is None:
        return None
    return _URL.sub(_origin, text)[:MAX_REASON_CHARS]


def _origin(found: re.Match[str]) -> str:
    try:
        parts = urlsplit(found[0])
        host = parts.hostname or ""
    except ValueError:
        return "(an address)"
    return f"{parts.scheme}://{host}/..."


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class EventThrottle:
    """Bounds what repeats: an event is written at once, the next of its kind a minute later.

    Parameters
    ----------
    clock
        Seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[tuple[Any, ...], tuple[float, int]] = {}

    def event(self, name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
        """Write an event, unless one with the same fields was written a short while ago.

        The next one says how many were not written, as `repeated`.
        """
        kind = (name, *sorted((key, str(value)) for key, value in fields.items()))
        now = self._clock()
        at, missed = self._written.pop(kind, (-REPEAT_S, 0))
        if now - at < REPEAT_S:
            self._written[kind] = at, missed + 1
            return
        self._written[kind] = now, 0
        while len(self._written) > _REMEMBERED:
            del self._written[next(iter(self._written))]
        event(name, level, **fields, repeated=missed or None)
