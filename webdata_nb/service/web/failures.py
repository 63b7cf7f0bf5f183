"""What went wrong in a transfer, in words: the one place where aiohttp's errors are read."""

from __future__ import annotations

import os
import ssl
from functools import singledispatch

import aiohttp

from webdata_nb.service.errors import FetchError


@singledispatch
def to_fetch_error(exc: Exception, host: str) -> FetchError:
    """Turn the client library's error into the service's own.

    Parameters
    ----------
    exc : Exception
        What aiohttp raised; an error of a class not known here counts as bad HTTP.
    host : str
        The host that was asked, for the message.
    """
    return FetchError("protocol", f"The answer of {host} could not be read ({_short(exc)}).")


@to_fetch_error.register
def _(exc: aiohttp.ClientConnectorCertificateError, host: str) -> FetchError:
    cause = exc.certificate_error
    reason = getattr(cause, "verify_message", "") or _short(cause)
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
    # Behind the first colon the parser repeats what was sent.
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
        return exc.reason or _short(exc)
    return os.strerror(exc.errno) if exc.errno else _short(exc)


def _short(exc: BaseException) -> str:
    return str(exc)[:120] or type(exc).__name__
