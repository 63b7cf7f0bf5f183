"""Builds the FastAPI application and its OpenAPI document from all routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from webdata_nb import __version__
from webdata_nb.contract.events import STREAMED
from webdata_nb.contract.replies import Refusal
from webdata_nb.service.routes import (
    captures,
    crawl,
    creatives,
    docs,
    engines,
    events,
    exports,
    health,
    jobs,
    openapi_route,
    page_facts,
    receipt,
    search,
    signature_directory,
    site_crawls,
    verification,
    webhook_operations,
    webhooks,
)
from webdata_nb.service.routes import credits as credit
from webdata_nb.service.routes.error_responses import HANDLERS
from webdata_nb.service.routes.routing import ERROR_BODIES, REF

ROUTERS: Final = (
    search.router,
    crawl.router,
    captures.router,
    site_crawls.router,
    jobs.router,
    verification.router,
    exports.router,
    events.router,
    receipt.router,
    page_facts.router,
    health.router,
    creatives.router,
    webhooks.router,
    credit.router,
    engines.router,
    openapi_route.router,
    docs.router,
    signature_directory.router,
)
_TEXT: Final = """\
Search, crawl and advertiser creatives as jobs over HTTP. Start a job, read its status until it is
completed, failed or cancelled, then export it. Bodies are JSON; every error body is an
object with a `detail`.

Every request except health checks and this document needs a key: `Authorization: Bearer KEY`.
Times are UTC. Durations are seconds unless their name or description says milliseconds. Items
marked *(ours)* are extensions of this service.
"""
_TAGS: Final = {
    "search": "Results of a query from search providers, in fallback order; scraped on request.",
    "crawl": "Pages of a site, and the outcome of every URL that was seen.",
    "jobs": "Jobs of either kind: list, cancel, retry.",
    "creatives": "Ads of an advertiser, in the reply to the request.",
    "webhooks": "Webhook deliveries to your endpoints.",
    "usage": "Prices in credits, and credits used.",
    "service": "Health, and this document.",
}
# Replies hold rows as plain objects; the document names their models.
_ROW_MODELS: Final = frozenset({"SearchItem", "CrawlPage", "Creative", "PageFacts"})


class Application(FastAPI):
    """The service's application; its `state` has `app_state` and `readiness`."""

    def __init__(self, extra_routes: Sequence[BaseRoute] = ()) -> None:
        routes = [route for router in ROUTERS for route in router.routes]
        super().__init__(
            title="webdata_nb",
            version=__version__,
            description=_TEXT,
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
            openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
            servers=[{"url": "/"}],
            # Not included as routers: FastAPI would match each request twice.
            routes=[*routes, *extra_routes],
            webhooks=webhook_operations.router,
            exception_handlers=HANDLERS,
            # A redirect would trust the Host header, and the contract has none.
            redirect_slashes=False,
            # A model that requests and replies share has the same schema in both.
            separate_input_output_schemas=False,
            openapi_url=None,
            # `RequestLogMiddleware` logs and counts requests, also those that the gate rejects.
            telemetry={"tracing": False, "metrics": False, "logs": False},
        )

    def openapi(self) -> dict[str, Any]:
        """Return the document; every operation needs a key unless its route is open."""
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document["components"]["schemas"]
            for schema in list(schemas.values()):
                _name_row_models(schema, schemas)
            for name, schema in _referenced_schemas().items():
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


def _referenced_schemas() -> dict[str, Any]:
    """Return the schemas of error bodies, and of the events that streams send as JSON text."""
    replies: list[type[BaseModel]] = [Refusal, *ERROR_BODIES.values(), *STREAMED.values()]
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in replies
    ]
    _, schemas = models_json_schema(models, ref_template=REF)
    return dict(schemas["$defs"])


def _name_row_models(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move the inlined schema of a reply's rows to a named component."""
    for field in schema.get("properties", {}).values():
        row = field.get("items", {})
        if (name := row.get("title")) in _ROW_MODELS:
            schemas.setdefault(name, row)
            field["items"] = {"$ref": REF.format(model=name)}


def openapi() -> dict[str, Any]:
    """Return the document without a running service."""
    return Application().openapi()
