"""The application: every router, the error handlers, and the document made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from webdata_nb import __version__
from webdata_nb.contract.events import STREAMED
from webdata_nb.service.routes import (
    crawl,
    creatives,
    docs,
    engines,
    events,
    exports,
    health,
    jobs,
    openapi_route,
    receipt,
    search,
    webhook_operations,
    webhooks,
)
from webdata_nb.service.routes import credits as credit
from webdata_nb.service.routes.error_responses import HANDLERS
from webdata_nb.service.routes.routing import REF

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
    openapi_route.router,
    docs.router,
)
_TEXT: Final = """\
Search, crawl and advertiser creatives as jobs over HTTP. Start a job, read its status until it is
completed, failed or cancelled, then export it. Bodies are JSON; every error body is an
object with a `detail`.

A request needs a key, as `Authorization: Bearer KEY`, for everything but health and this document.
Times are UTC, durations are seconds unless their name or description says milliseconds. What is
marked *(ours)* is an extra of this service.
"""
_TAGS: Final = {
    "search": "Results of a query, from search providers asked in turn, scraped if wanted.",
    "crawl": "Pages of a site, and what became of every URL that was seen.",
    "jobs": "Jobs of either kind: list, cancel, retry.",
    "creatives": "Ads of an advertiser, answered at once.",
    "webhooks": "What was told to endpoints of yours.",
    "usage": "Prices in credits, and what was used.",
    "service": "Health, and this document.",
}
# The rows of a reply are not models, but the document says what they are.
_ROWS: Final = frozenset({"SearchItem", "CrawlPage", "Creative"})


class Application(FastAPI):
    """The service's application; its `state` has `app_state` and `readiness`."""

    def __init__(self, more: Sequence[BaseRoute] = ()) -> None:
        routes = [route for router in ROUTERS for route in router.routes]
        super().__init__(
            title="webdata_nb",
            version=__version__,
            description=_TEXT,
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
            openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
            servers=[{"url": "/"}],
            # Taken as they are: a request would be matched twice against an included router.
            routes=[*routes, *more],
            webhooks=webhook_operations.router,
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
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document["components"]["schemas"]
            for schema in list(schemas.values()):
                _name_rows(schema, schemas)
            for name, schema in _events().items():
                schemas.setdefault(name, schema)
            document["components"]["schemas"] = dict(sorted(schemas.items()))
            document["components"]["securitySchemes"] = {"bearer": _BEARER}
            document["security"] = [{"bearer": []}]
        return super().openapi()


_BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of an account, or the token of a local service.",
}


def _events() -> dict[str, Any]:
    """Return the schemas of what streams of events carry as text."""
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in STREAMED.values()
    ]
    _, schemas = models_json_schema(models, ref_template=REF)
    return dict(schemas["$defs"])


def _name_rows(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give the schema of a reply's rows, which pydantic writes in place, a name of its own."""
    for each in schema.get("properties", {}).values():
        row = each.get("items", {})
        if (name := row.get("title")) in _ROWS:
            schemas.setdefault(name, row)
            each["items"] = {"$ref": REF.format(model=name)}


def openapi() -> dict[str, Any]:
    """Return the document without a service that runs."""
    return Application().openapi()
