"""The page of the HTTP reference, written from the OpenAPI document of the service."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from webdata_nb.service.routes.application import openapi

_METHODS: Final = ("get", "post", "put", "patch", "delete")
# Every operation may answer with these; the page lists them once.
_COMMON_STATUSES: Final = frozenset({"400", "401", "408", "413", "415", "422", "429", "500", "503"})
_BOUNDS: Final = {
    "minimum": "from {}",
    "maximum": "to {}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} entries",
    "maxProperties": "at most {} entries",
}
# Values for required parameters of examples.
_SAMPLES: Final = {"job_id": "$JOB", "delivery_id": "$DELIVERY", "sha256": "$SHA256", "q": "fulmar"}

Schema = Mapping[str, Any]


def page() -> str:
    """Return the reference as Markdown; the same document gives the same text."""
    return HttpReference(openapi()).page()


class HttpReference:
    """Writes an OpenAPI document as Markdown, with a curl command for each operation."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._schemas: Schema = document["components"]["schemas"]

    def page(self) -> str:
        """Return the page."""
        parts = [*self._head(), *self._operation_parts(), *self._schema_parts()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _head(self) -> Iterator[str]:
        yield "# HTTP API"
        yield str(self._document["info"]["description"]).strip()
        yield (
            "The examples use two variables of the shell, and `$JOB` for the id that the start of "
            "a job returns. `webdata openapi` prints the OpenAPI document from which this page is "
            "generated; a running service serves it at `/openapi.json` and `/docs`."
        )
        yield (
            "```sh\nexport WEBDATA_BASE_URL=https://data.example.com\n"
            "export WEBDATA_API_KEY=...  # printed by `webdata keys create`\n```"
        )
        yield "## Errors"
        yield "Each operation may return these statuses; its own list has the others."
        yield "\n".join(["| status | meaning |", "|---|---|", *self._common_statuses()])

    def _common_statuses(self) -> Iterator[str]:
        meanings: dict[str, str] = {}
        for _, _, operation in self._operations():
            for status, reply in operation["responses"].items():
                meanings.setdefault(status, reply["description"])
        for status in sorted(_COMMON_STATUSES & meanings.keys()):
            yield f"| {status} | {_cell(meanings[status])} |"

    def _operations(self) -> Iterator[tuple[str, str, Schema]]:
        for path, methods in self._document["paths"].items():
            for method in _METHODS:
                if method in methods:
                    yield path, method, methods[method]

    def _operation_parts(self) -> Iterator[str]:
        for tag in self._document["tags"]:
            yield f"## {tag['name'].capitalize()}"
            yield tag["description"]
            for path, method, operation in self._operations():
                if tag["name"] in operation["tags"]:
                    yield from self._operation(path, method, operation)

    def _operation(self, path: str, method: str, operation: Schema) -> Iterator[str]:
        yield f"### {operation['summary']} {{ #{operation['operationId']} }}"
        yield f"`{method.upper()} {path}`"
        yield _paragraphs(operation.get("description", ""))
        yield f"```sh\n{curl(path, method, operation)}\n```"
        if parameters := operation.get("parameters", []):
            rows = [self._parameter_row(each) for each in parameters]
            yield "\n".join(["| parameter | in | type | meaning |", "|---|---|---|---|", *rows])
        if body := _body_schema(operation):
            yield f"Body: {self._type(body)}"
        yield "\n".join(self._replies(operation))

    def _parameter_row(self, parameter: Schema) -> str:
        schema = parameter["schema"]
        name = f"`{parameter['name']}`" + (" *" if parameter.get("required") else "")
        meaning = _cell(parameter.get("description", ""), *_notes(schema))
        return f"| {name} | {parameter['in']} | {self._type(schema)} | {meaning} |"

    def _replies(self, operation: Schema) -> Iterator[str]:
        for status, reply in sorted(operation["responses"].items()):
            if status in _COMMON_STATUSES:
                continue
            contents = reply.get("content", {})
            types = [
                self._type(content["schema"]) if "json" in kind else f"`{kind}`"
                for kind, content in contents.items()
            ]
            what = reply["description"] if status != "200" else ""
            yield f"- {status}: {', '.join(part for part in (what, *types) if part)}"

    def _schema_parts(self) -> Iterator[str]:
        yield "## Objects"
        yield "A star marks fields that are always there, or that a request must have."
        for name in sorted(self._schemas):
            schema = self._schemas[name]
            if "properties" not in schema:
                continue
            yield f"### {name} {{ #{_anchor(name)} }}"
            yield _paragraphs(schema.get("description", ""))
            yield "\n".join(self._field_rows(schema))

    def _field_rows(self, schema: Schema) -> Iterator[str]:
        required = schema.get("required", ())
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for name, field in schema["properties"].items():
            star = " *" if name in required else ""
            meaning = _cell(field.get("description", ""), *_notes(field))
            yield f"| `{name}`{star} | {self._type(field)} | {meaning} |"

    def _type(self, schema: Schema) -> str:
        """Return the type of a schema in a few words; objects are links."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            target = self._schemas[name]
            return f"[{name}](#{_anchor(name)})" if "properties" in target else self._type(target)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                return " or ".join(dict.fromkeys(self._type(each) for each in schema[key]))
        if "enum" in schema:
            return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if schema.get("type") == "array":
            return f"list of {self._type(schema.get('items', {}))}"
        kind = schema.get("format") or schema.get("type", "any")
        return " or ".join(kind) if isinstance(kind, list) else str(kind)


def curl(path: str, method: str, operation: Schema) -> str:
    """Return a curl command for an operation, with its last example as the body."""
    required = [each for each in operation.get("parameters", []) if each.get("required")]
    values = {
        each["name"]: _SAMPLES.get(each["name"], f"${each['name'].upper()}") for each in required
    }
    address = re.sub(r"\{(\w+)\}", lambda name: values[name[1]], path)
    query = "&".join(f"{e['name']}={values[e['name']]}" for e in required if e["in"] == "query")
    lines = [f'curl "$WEBDATA_BASE_URL{address}{"?" + query if query else ""}"']
    if method != "get":
        lines[0] = lines[0].replace("curl ", f"curl -X {method.upper()} ", 1)
    if operation.get("security") != []:
        lines.append('-H "Authorization: Bearer $WEBDATA_API_KEY"')
    example = _example(operation)
    if example is not None:
        lines.append('-H "Content-Type: application/json"')
        lines.append(f"-d {shlex.quote(json.dumps(example, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def _example(operation: Schema) -> Any:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = [each["value"] for each in content.get("examples", {}).values()]
    return examples[0] if examples else content.get("example")


def _body_schema(operation: Schema) -> Schema | None:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema: Schema | None = content.get("schema")
    return schema


def _notes(schema: Schema) -> Iterator[str]:
    """Yield the default and the bounds of a value."""
    default = schema.get("default")
    if default is not None and default != [] and not isinstance(default, dict):
        yield f"Default: `{json.dumps(default)}`."
    bounds = [text.format(f"{schema[key]:,.0f}") for key, text in _BOUNDS.items() if key in schema]
    if bounds:
        yield f"{' '.join(bounds).capitalize()}."


def _cell(*parts: str) -> str:
    return " ".join(" ".join(parts).split()).replace("|", "\\|")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _anchor(name: str) -> str:
    return f"object-{name.lower()}"
