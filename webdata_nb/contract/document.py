"""The OpenAPI 3.1 document, made of the models and the table of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from webdata_nb.contract.operations import JSON, OPERATIONS, REFUSALS, Operation, Parameter
from webdata_nb.contract.replies import InvalidRequest, Refusal

_REF: Final = "#/components/schemas/{model}"
_TEXT: Final = """\
Search, crawl and advertiser creatives as jobs over HTTP. Start a job, read its status until it is
completed, failed or cancelled, then export it. Bodies are JSON; every error body is an
object with a `detail`.
"""
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_LIMIT_HEADERS: Final = {
    "Retry-After": {"description": "Whole seconds.", "schema": _COUNT},
    "X-Concurrency-Limit": {"description": "What the plan allows at once.", "schema": _COUNT},
    "X-Concurrency-Active": {"description": "What is under way.", "schema": _COUNT},
}
_INVALID: Final = 422
_OVER_LIMIT: Final = 429
_UNAUTHORIZED: Final = 401


def document(version: str) -> dict[str, Any]:
    """Return the document; `version` is the package's."""
    models = _models()
    pairs = [(model, "validation") for model in models]
    _, schemas = models_json_schema(pairs, ref_template=_REF)  # type: ignore[arg-type] # literals
    described: dict[str, Any] = {}
    for operation in OPERATIONS:
        described.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "webdata_nb", "version": version, "description": _TEXT},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": described,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas["$defs"],
        },
    }


def _models() -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {Refusal: None, InvalidRequest: None}
    for operation in OPERATIONS:
        for answer in (*operation.answers.values(), operation.body):
            model = answer[0] if isinstance(answer, list) else answer
            if model is not None:
                found[model] = None
    return list(found)


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.text,
        "responses": {"200": _success(operation)}
        | {str(status): _refusal(status) for status in operation.statuses},
    }
    if operation.parameters:
        described["parameters"] = [_parameter(each) for each in operation.parameters]
    if operation.body is not None:
        described["requestBody"] = _body(operation, operation.body)
    if operation.open:
        described["security"] = []
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required,
        "schema": dict(parameter.schema),
        **({"description": parameter.text} if parameter.text else {}),
    }


def _body(operation: Operation, model: type[BaseModel]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": _ref(model)}
    if operation.examples:
        content["examples"] = {
            name.replace(" ", "-"): {"summary": name, "value": value}
            for name, value in operation.examples.items()
        }
    required = any(field.is_required() for field in model.model_fields.values())
    return {"required": required, "content": {JSON: content}}


def _success(operation: Operation) -> dict[str, Any]:
    content = {kind: _answer(kind, answer) for kind, answer in operation.answers.items()}
    described: dict[str, Any] = {"description": operation.text, "content": content}
    if operation.links:
        described["links"] = {
            target: {
                "operationId": target,
                "parameters": {f"path.{name}": f"$response.body#/{name}"},
            }
            for target, name in operation.links.items()
        }
    return described


def _answer(kind: str, answer: type[BaseModel] | list[type[BaseModel]] | None) -> dict[str, Any]:
    if isinstance(answer, list):
        return {"schema": {"type": "array", "items": _ref(answer[0])}}
    if answer is not None:
        return {"schema": _ref(answer)}
    return {"schema": {"type": "object"} if kind == JSON else {}}


def _refusal(status: int) -> dict[str, Any]:
    model = InvalidRequest if status == _INVALID else Refusal
    described: dict[str, Any] = {
        "description": REFUSALS[status],
        "content": {JSON: {"schema": _ref(model)}},
    }
    if status == _OVER_LIMIT:
        described["headers"] = {
            name: {**header, "required": True} for name, header in _LIMIT_HEADERS.items()
        }
    if status == _UNAUTHORIZED:
        described["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return described


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
