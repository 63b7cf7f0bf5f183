"""The OpenAPI document and its operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.requirements import require_module
from webdata_nb.service.routes.application import openapi

DOCUMENT = openapi()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path, as the document describes it."""

    method: str
    path: str
    described: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.described["operationId"])

    @property
    def statuses(self) -> frozenset[int]:
        """What it may answer."""
        return frozenset(map(int, self.described["responses"]))

    @property
    def body(self) -> Mapping[str, Any] | None:
        """What is said of its body: `schema` and `examples`."""
        content = self.described.get("requestBody", {}).get("content", {})
        return content.get("application/json")  # type: ignore[no-any-return]

    @property
    def examples(self) -> list[Any]:
        """Examples of its body."""
        return [each["value"] for each in (self.body or {}).get("examples", {}).values()]


OPERATIONS = tuple(
    Operation(method, path, described)
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
)


def whole_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what its references lead to, for a validator."""
    return {**schema, "components": DOCUMENT["components"]}


def validate(value: object, schema: Mapping[str, Any]) -> None:
    """Raise jsonschema.ValidationError where a value is not what a schema of the document says.

    The validator is imported here, because its import takes seconds.
    """
    require_module("jsonschema").Draft202012Validator(whole_schema(schema)).validate(value)


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a model by its name."""
    return whole_schema(DOCUMENT["components"]["schemas"][name])
