"""Adds signatures to outgoing requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from webdata_nb.service.signing.request_signer import RequestSigner


class SigningMiddleware:
    """Signs each request as it is sent.

    aiohttp calls a middleware for each attempt, so that a request that it repeats on a new
    connection has a signature of its own, and after it has built the Host header.
    """

    def __init__(self, signer: RequestSigner) -> None:
        self._signer = signer

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Sign a request and send it."""
        host = request.headers[hdrs.HOST]
        request.headers.update(self._signer.headers(request.method, host, request.url.raw_path))
        return await handler(request)
