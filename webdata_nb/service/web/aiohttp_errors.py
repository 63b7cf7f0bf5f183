"""Converts aiohttp's exceptions to `FetchError`."""

from __future__ import annotations

import os
import ssl
from functools import singledispatch

import aiohttp

from webdata_nb.page.errors import FetchError


@singledispatch
def to_fetch_error(exc: Exception, host: str) -> FetchError:
    """Convert an exception of aiohttp.

    Parameters
    ----------
    exc : Exception
        The exception; an unknown class counts as invalid HTTP.
    host : str
        The host, for the message.
    """
    return FetchError("protocol", f"The answer of {host} could not be read ({_short_text(exc)}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientConnectorCertificateError, host: str) -> FetchError:
    cause = exc.certificate_error
    reason = getattr(cause, "verify_message", "") or _short_text(cause)
    return FetchError("tls", f"The certificate of {host} is not trusted ({reason}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientConnectorSSLError, host: str) -> FetchError:
    return FetchError("tls", f"No secure connection to {host} ({_system_reason(exc.os_error)}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientConnectorError, host: str) -> FetchError:
    reason = _system_reason(exc.os_error)
    return FetchError("connect", f"{host} could not be reached ({reason}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientProxyConnectionError, _host: str) -> FetchError:
    reason = _system_reason(exc.os_error)
    return FetchError("connect", f"The proxy could not be reached ({reason}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientHttpProxyError, host: str) -> FetchError:
    return FetchError("connect", f"The proxy gave no way to {host} (status {exc.status}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientResponseError, host: str) -> FetchError:
    # After the first colon the parser quotes the response.
    reason = exc.message.partition(":")[0][:120]
    return FetchError("protocol", f"{host} sent something that is not valid HTTP ({reason}).")


@to_fetch_error.register
def _(exc: aiohttp.InvalidURL, _host: str) -> FetchError:
    return FetchError("bad_url", f"The URL {str(exc.url)[:200]!r} cannot be requested.")


@to_fetch_error.register(aiohttp.ServerTimeoutError)
@to_fetch_error.register(TimeoutError)
def _(_exc: Exception, host: str) -> FetchError:
    return FetchError("timeout", f"{host} did not answer in time.")


@to_fetch_error.register(aiohttp.ClientPayloadError)
@to_fetch_error.register(aiohttp.ClientConnectionError)
@to_fetch_error.register(OSError)
def _(_exc: Exception, host: str) -> FetchError:
    return FetchError("reset", f"{host} closed the connection before its answer was complete.")


def _system_reason(exc: OSError) -> str:
    if isinstance(exc, ssl.SSLError):
        return exc.reason or _short_text(exc)
    return os.strerror(exc.errno) if exc.errno else _short_text(exc)


def _short_text(exc: BaseException) -> str:
    return str(exc)[:120] or type(exc).__name__
