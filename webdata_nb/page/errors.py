"""Defines the errors of pages and of values that are not allowed.

`webdata_nb.service.errors` draws the tree of all errors.
"""

from __future__ import annotations


class ApplicationError(Exception):
    """Root of the errors that the service raises on purpose."""


class BadInput(ApplicationError):
    """A request value that is not allowed; `loc` is the path to it in the body.

    `problem_type` is the `type` of the field in the reply.
    """

    problem_type = "value_error"

    def __init__(self, message: str, *, loc: tuple[str | int, ...] = ("body",)) -> None:
        super().__init__(message)
        self.loc = loc


class PageError(ApplicationError):
    """One page failed. `kind` is a short stable word that the receipt counts."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class FetchError(PageError):
    """The transfer of a page failed.

    `kind` is one of: host_unavailable (the circuit breaker of the host is open), dns, connect,
    tls, timeout, reset, protocol, too_large, decode, redirects (too many, or a loop), refused,
    bad_url. `hops` counts the redirects before the failure.
    """

    hops: int = 0


class ScrapeError(PageError):
    """A page could not be turned into data.

    `kind` is one of: unsupported_type, parse, cpu_limit, memory_limit, worker_died,
    browser_missing, render, extract.
    """


class ExtractError(PageError):
    """The data of a scraped page could not be extracted.

    `kind` is one of: auth, quota, rate_limited, timeout, unreachable, status, too_long, too_large,
    malformed (no chat completion), refused, cut_off, invalid (no JSON, or not what the schema
    asks for), empty (a page without text), failed (declared data that cannot be read).
    """
