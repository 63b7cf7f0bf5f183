"""The application: every router, the error handlers, and the document made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI
from starlette.routing import BaseRoute

from webdata_nb import __version__
from webdata_nb.service.routes import (
    crawl,
    creatives,
    document,
    engines,
    events,
    exports,
    health,
    jobs,
    receipt,
    search,
    webhooks,
)
from webdata_nb.service.routes import credits as credit
from webdata_nb.service.routes.problems import HANDLERS

ROUTERS: Final = (
    search.router,
    crawl.router,
    jobs.router,
    exports.router,
    events.router,
    receipt.router,
    health.router,
    creatives.router,
    webhooks.router,
    credit.router,
    engines.router,
    document.router,
)
_TEXT: Final = """\
Search, crawl and advertiser creatives as jobs over HTTP. Start a job, read its status until it is
completed, failed or cancelled, then export it. Bodies are JSON; every error body is an
object with a `detail`.
"""


class Application(FastAPI):
    """The service's application. `state` holds `desk`, `counter` and `readiness`."""

    def __init__(self, more: Sequence[BaseRoute] = ()) -> None:
        routes = [route for router in ROUTERS for route in router.routes]
        super().__init__(
            title="webdata_nb",
            version=__version__,
            description=_TEXT,
            servers=[{"url": "/"}],
            # Taken as they are: a request would be matched twice against an included router.
            routes=[*routes, *more],
            exception_handlers=HANDLERS,
            # A redirect would trust the Host header, and is no answer of the contract.
            redirect_slashes=False,
            # Requests and answers have different models; one that both have is the same in both.
            separate_input_output_schemas=False,
            openapi_url=None,
            # Requests are traced and counted around the gate, which sees those that it refuses.
            telemetry={"tracing": False, "metrics": False, "logs": False},
        )

    def openapi(self) -> dict[str, Any]:
        """Return the document; the gate asks every operation for a key, but the open ones."""
        schema = super().openapi()
        schema["security"] = [{"bearer": []}]
        schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
        schema["components"].setdefault("securitySchemes", schemes)
        return schema


def openapi() -> dict[str, Any]:
    """Return the document without a service that runs."""
    return Application().openapi()
