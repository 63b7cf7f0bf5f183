"""Configures logs as text or JSON lines, and writes named events with fields."""

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

from webdata_nb.contract.choices import KeyScope

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
# Shortest interval between repeated events.
REPEAT_INTERVAL_S: Final = 60.0
_MAX_TRACKED_EVENTS: Final = 1000
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_UNQUOTED: Final = re.compile(r"[^\s\"=]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """The account of a request, and its key with what it opens; a local service has no keys."""

    account_id: str
    key_id: str | None
    scopes: frozenset[KeyScope]
    ends_at: float | None = None


# The current request ("" outside of one), its caller, and the current job.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("webdata_request_id", default="")
CALLER: Final[ContextVar[Caller | None]] = ContextVar("webdata_caller", default=None)
JOB_ID: Final[ContextVar[str]] = ContextVar("webdata_job_id", default="")


class _TextFormatter(logging.Formatter):
    """Formats records as lines; control characters are replaced, so no value can forge a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line with its request id and job id."""
        line = super().formatMessage(record)
        ids = [value for value in (REQUEST_ID.get(), _job_of(record)) if value]
        printable = "".join(char if char.isprintable() else " " for char in line)
        return f"{printable} [{' '.join(ids)}]" if ids else printable


class _JsonFormatter(logging.Formatter):
    """Formats records as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, including the record's `fields`."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **vars(record).get("fields", {}),
        }
        if request := REQUEST_ID.get():
            entry["request_id"] = request
        if job := _job_of(record):
            entry["job"] = job
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


def _job_of(record: logging.LogRecord) -> str:
    """Return the current job, unless the record has a `job` field."""
    return "" if "job" in vars(record).get("fields", {}) else JOB_ID.get()


def configure_logging(log_format: LogFormat) -> None:
    """Write all records from INFO to standard error in a format."""
    handler = logging.StreamHandler()
    text = _TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if log_format == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("asyncio").addFilter(_is_not_disconnect)
    # During an outage it logs several lines per second; the store logs the begin and the end.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    # Text logs omit the line of each request.
    requests = logging.INFO if log_format == "json" else logging.WARNING
    logging.getLogger("webdata_nb.service.requests").setLevel(requests)


def _is_not_disconnect(record: logging.LogRecord) -> bool:
    """Filter out asyncio's message about clients that disconnect during a reply."""
    return record.msg != "socket.send() raised exception."


def event(name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event: its name and ``field=value`` as text, or its fields and `event` as JSON.

    Parameters
    ----------
    name
        What happened.
    level
        One of the levels of `logging`.
    **fields
        Identifiers, counts, seconds and states; None is omitted. Text of pages, request bodies and
        providers must pass through `reason`.
    """
    present = {key: _rounded(value) for key, value in fields.items() if value is not None}
    line = " ".join([name, *(f"{key}={_quoted(value)}" for key, value in present.items())])
    # As an argument, because the line may contain a percent sign.
    logging.getLogger(EVENTS).log(level, "%s", line, extra={"fields": {"event": name, **present}})


def reason(text: str | None) -> str | None:
    """Shorten an error message for logs, and reduce its URLs to scheme and host."""
    if text is None:
        return None
    return _URL.sub(_origin, text)[:MAX_REASON_CHARS]


def _origin(match: re.Match[str]) -> str:
    try:
        parts = urlsplit(match[0])
        host = parts.hostname or ""
    except ValueError:
        return "(an address)"
    return f"{parts.scheme}://{host}/..."


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class EventThrottle:
    """Logs an event at once, and repetitions of it at most once a minute.

    Parameters
    ----------
    clock
        A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_logged: dict[tuple[Any, ...], tuple[float, int]] = {}

    def event(self, name: Event, /, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event, unless one with the same fields was logged within the last minute.

        The next one has the number of suppressed events as `repeated`.
        """
        key = (name, *sorted((key, str(value)) for key, value in fields.items()))
        now = self._clock()
        logged_at, suppressed = self._last_logged.pop(key, (-REPEAT_INTERVAL_S, 0))
        if now - logged_at < REPEAT_INTERVAL_S:
            self._last_logged[key] = logged_at, suppressed + 1
            return
        self._last_logged[key] = now, 0
        while len(self._last_logged) > _MAX_TRACKED_EVENTS:
            del self._last_logged[next(iter(self._last_logged))]
        event(name, level, **fields, repeated=suppressed or None)
