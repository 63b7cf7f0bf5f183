"""Builds the FastAPI application and its OpenAPI document from all routers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import orjson
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
            for operation in _operations(document):
                _describe_defaults(operation.get("requestBody", {}), schemas)
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


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _describe_defaults(body: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move the defaults of a request's fields into their descriptions.

    Generators take a field with a default for one that is always there, as it is in a reply, and
    let their users state every option of a request.
    """
    pending: list[Any] = [content["schema"] for content in body.get("content", {}).values()]
    for schema in pending:
        schema.pop("default", None)
    seen: set[str] = set()
    while pending:
        schema = pending.pop()
        name = schema.get("$ref", "").rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            pending.append(schemas[name])
        for field in schema.get("properties", {}).values():
            default = field.pop("default", None)
            if default is not None and default != [] and not isinstance(default, dict):
                text = f"Default: `{orjson.dumps(default).decode()}`."
                field["description"] = f"{field.get('description', '')} {text}".lstrip()
            pending.append(field)
        inner = (schema.get("items"), schema.get("additionalProperties"))
        pending += [each for each in inner if isinstance(each, dict)]
        for key in ("anyOf", "oneOf", "allOf"):
            pending += schema.get(key, [])


def openapi() -> dict[str, Any]:
    """Return the document without a running service."""
    return Application().openapi()
