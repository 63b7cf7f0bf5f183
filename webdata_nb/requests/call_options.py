"""The arguments that every table function takes besides its request, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from webdata_nb import session as sessions
from webdata_nb.display import progress as display
from webdata_nb.errors import InvalidArgument
from webdata_nb.requests import arguments
from webdata_nb.session import Connection
from webdata_nb.settings import Settings

if TYPE_CHECKING:
    from webdata_nb.frames.frame import DtypeBackend

OnIncomplete = Literal["raise", "warn", "ignore"]
OnCancel = Literal["raise", "partial"]

# How long a cached answer is fresh, in seconds, where nothing else is said.
TTL_S: Final = {"search": 86_400.0, "creatives": 86_400.0, "crawl": 7 * 86_400.0}
_BACKENDS: Final = ("pandas", "pyarrow")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How one call is carried out."""

    connection: Connection
    settings: Settings
    timeout_s: float | None = None
    dtype_backend: DtypeBackend = "pandas"
    cache: bool = False
    refresh: bool = False
    stale_if_error: float | None = None
    on_incomplete: OnIncomplete = "raise"
    on_cancel: OnCancel = "raise"
    out: Path | str | None = None
    # Of several inputs: for how long one of them having found the service will do for the others,
    # and who adds up what each of them shows.
    seen_s: float = 0.0
    also: display.Seen | None = None

    @classmethod
    def of(
        cls,
        *,
        session: Connection | None,
        progress: bool | str | None = None,
        cache: bool = False,
        ttl: float | None = None,
        refresh: bool = False,
        offline: bool | None = None,
        stale_if_error: bool | float = False,
        timeout: float | None = None,
        on_incomplete: OnIncomplete = "raise",
        on_cancel: OnCancel = "raise",
        dtype_backend: DtypeBackend = "pandas",
        out: str | Path | None = None,
    ) -> CallOptions:
        """Check the arguments as a user gave them.

        Raises
        ------
        InvalidArgument
            One that cannot be right; nothing was sent.
        """
        arguments.one_of("on_incomplete", on_incomplete, get_args(OnIncomplete))
        arguments.one_of("on_cancel", on_cancel, get_args(OnCancel))
        arguments.one_of("dtype_backend", dtype_backend, _BACKENDS)
        connection = _connection(session)
        return cls(
            connection,
            _settings(connection, progress, ttl, offline),
            timeout_s=_timeout(timeout),
            dtype_backend=dtype_backend,
            cache=arguments.flag("cache", cache),
            refresh=arguments.flag("refresh", refresh),
            stale_if_error=_stale(stale_if_error),
            on_incomplete=on_incomplete,
            on_cancel=on_cancel,
            out=arguments.out_path(out),
        )

    def ttl_s(self, op: str) -> float | None:
        """Return for how many seconds a cached answer of `op` is fresh; None offline: any age."""
        if self.settings.offline:
            return None
        return TTL_S[op] if self.settings.ttl is None else self.settings.ttl


def _connection(session: object) -> Connection:
    if session is None:
        return sessions.current()
    if not isinstance(session, Connection):
        raise InvalidArgument("session must be what connect() returns, or None for the default")
    return session


def _settings(
    connection: Connection, progress: bool | str | None, ttl: float | None, offline: bool | None
) -> Settings:
    if offline is not None:
        arguments.flag("offline", offline)
    display.check(progress)
    seconds = arguments.seconds("ttl", ttl)
    chosen = connection.settings(progress=progress, ttl=seconds, offline=offline)
    display.check(chosen.progress)
    return chosen


def _timeout(value: float | None) -> float | None:
    seconds = arguments.seconds("timeout", value)
    if seconds == 0:
        raise InvalidArgument("timeout must be more than 0 seconds, or None to wait for the end")
    return seconds


def _stale(value: bool | float) -> float | None:
    """Return how old an answer may be that stands in for an error; None: no such answer."""
    if isinstance(value, bool):
        return math.inf if value else None
    return arguments.seconds("stale_if_error", value)
