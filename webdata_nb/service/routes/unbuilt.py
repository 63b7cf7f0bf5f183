"""Options of the contract that this version does not carry out: refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.service.errors import NotYetBuilt


def refuse(request: SearchRequest | CrawlRequest) -> None:
    """Raise `NotYetBuilt` for the first option that is asked for and missing."""
    used = _crawl(request) if isinstance(request, CrawlRequest) else _search(request)
    for name in used:
        raise NotYetBuilt(f"{name} is not available in this version")


def _search(request: SearchRequest) -> Iterator[str]:
    yield from _webhook(request)


def _crawl(request: CrawlRequest) -> Iterator[str]:
    yield from _webhook(request)


def _webhook(request: SearchRequest | CrawlRequest) -> Iterator[str]:
    if request.webhook_url is not None or request.webhook_secret is not None:
        yield "webhook_url"


async def _refused(request: Request) -> JSONResponse:
    return JSONResponse({"detail": f"{request.url.path} is not available in this version"}, 501)


ROUTES = [
    Route(paths.WEBHOOK_DELIVERIES, _refused),
    Route(paths.WEBHOOK_REPLAY, _refused, methods=["POST"]),
    Route(paths.WEBHOOK_TEST, _refused, methods=["POST"]),
    Route(paths.WEBHOOK_STATS, _refused),
]
