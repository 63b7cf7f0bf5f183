"""What a service offers beyond the contract, and how requests do without the rest.

Another service may ignore an option that it does not know. Where that would give rows that the
caller did not want, its OpenAPI document must name the option. Long crawls need no check: only our
service has them, and it refuses options that it does not know.

Another service may also refuse a parameter that it does not know. Those that only save work are
left out then, and in later requests to this service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.contract import paths
from webdata_nb.contract.requests import CrawlRequest, ScrapeOptions
from webdata_nb.errors import BadAnswer, InvalidRequest, NotFound, NotSupported, ServiceError
from webdata_nb.toolkit.client.http import ApiRequest
from webdata_nb.toolkit.client.transport import Transport

# The options of crawls that must not be ignored.
CHECKED: Final = frozenset({"purpose", "rights", "check_links"})

_OURS: Final = "(ours)"
_REFUSALS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_ABSENT: Final = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
# What services have refused, by `Transport.key_digest`.
_REFUSED: Final[dict[str, set[tuple[str, str]]]] = {}


class OptionalParameters:
    """The query parameters without which a request is valid as well, though its answer is longer.

    A service says that it refuses a parameter by the status 400 or 422. A parameter counts as
    refused once the request succeeds without it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def refuses(self, operation: str, name: str) -> bool:
        """Whether the service has refused a parameter of an operation."""
        return (operation, name) in _REFUSED.get(self._transport.key_digest, ())

    def refuse(self, operation: str, name: str) -> None:
        """Leave a parameter of an operation out from now on."""
        _REFUSED.setdefault(self._transport.key_digest, set()).add((operation, name))

    async def json(self, operation: str, request: ApiRequest, optional: Sequence[str]) -> Any:
        """Return the reply to a request; `optional` names parameters, the least useful one first.

        Raises
        ------
        ServiceError, ConnectionFailed, UnknownOutcome, BadAnswer
            As `Transport.json`, for the request without what may be left out.
        """
        params = {
            name: value
            for name, value in request.params.items()
            if name not in optional or not self.refuses(operation, name)
        }
        while True:
            try:
                reply = await self._transport.json(replace(request, params=params))
            except InvalidRequest as error:
                left_out = _refused_name(error, [name for name in optional if name in params])
                if left_out is None:
                    raise
                del params[left_out]
            else:
                for name in request.params.keys() - params.keys():
                    self.refuse(operation, name)
                return reply


def _refused_name(error: InvalidRequest, optional: Sequence[str]) -> str | None:
    """Return the parameter to leave out: one that the refusal names, or else the first."""
    if error.status not in _REFUSALS or not optional:
        return None
    named = _named(error, optional)
    if named or error.fields:
        return named[0] if named else None
    return optional[0]


def absent_operation(error: ServiceError, base_url: str, what: str) -> ServiceError:
    """Return the error of an operation that a service may lack, as a sentence about the service."""
    is_absent = isinstance(error, NotFound) or (error.status in _ABSENT and not error.detail)
    if not (is_absent or error.status == HTTPStatus.METHOD_NOT_ALLOWED):
        return error
    return NotSupported(f"the service at {base_url} does not offer {what}", status=error.status)


def refused_start(error: InvalidRequest, base_url: str, body: Mapping[str, Any]) -> ServiceError:
    """Return the error of a start; it names options beyond the contract that it did not take."""
    extras = list(_extra_options(body))
    if error.status not in _REFUSALS or not extras or _states_a_value(error, extras):
        return error
    refused = _named(error, extras)
    if refused:
        offer = f"does not offer {' and '.join(refused)}"
    elif not _named(error, [*body, *(body.get("scrape_options") or ())]):
        offer = f"refused the request, perhaps because it does not offer {' and '.join(extras)}"
    else:
        return error
    return NotSupported(
        f"the service at {base_url} {offer}; nothing was started",
        status=error.status,
        detail=error.detail,
    )


def _named(error: InvalidRequest, names: Sequence[str]) -> list[str]:
    """Return the names that a refusal mentions."""
    fields = {part for path, _ in error.fields for part in path.split(".")}
    return [name for name in names if name in fields or re.search(rf"\b{name}\b", error.detail)]


def _states_a_value(error: InvalidRequest, names: Sequence[str]) -> bool:
    """Whether a refusal is about the values of options, which the service knows then."""
    kinds = [
        kind
        for (path, _), kind in zip(error.fields, error.types, strict=False)
        if path.rpartition(".")[2] in names
    ]
    return bool(kinds) and not any("extra" in kind for kind in kinds)


def _extra_options(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of a crawl that are no part of the contract."""
    scrape = body.get("scrape_options")
    for model, values in ((CrawlRequest, body), (ScrapeOptions, scrape)):
        for name, field in model.model_fields.items():
            if (
                isinstance(values, Mapping)
                and name in values
                and _OURS in (field.description or "")
            ):
                yield name


class OfferedOptions:
    """The options that the operations of one service accept, read once from its document."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._document: Mapping[str, Any] | None = None

    async def check(self, path: str, body: Mapping[str, Any]) -> None:
        """Check the options of a request before it is sent.

        Raises
        ------
        NotSupported
            The service does not offer one of them.
        ConnectionFailed
            It cannot be reached.
        """
        wanted = sorted(CHECKED & body.keys())
        if not wanted:
            return
        if self._document is None:
            self._document = await self._fetch()
        offered = _properties(self._document, path)
        if missing := [name for name in wanted if name not in offered]:
            raise NotSupported(
                f"the service at {self._transport.base_url} does not offer "
                f"{' and '.join(missing)} (POST {path}); nothing was started",
                status=HTTPStatus.NOT_IMPLEMENTED,
            )

    async def _fetch(self) -> Mapping[str, Any]:
        try:
            document = await self._transport.json(ApiRequest("GET", paths.OPENAPI))
        except (ServiceError, BadAnswer):
            return {}
        return document if isinstance(document, dict) else {}


def _properties(document: Mapping[str, Any], path: str) -> frozenset[str]:
    """Return the names of the fields that the body of POST `path` may have."""
    keys = ("paths", path, "post", "requestBody", "content", "application/json", "schema")
    schema = _entry(document, keys)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = _entry(document, reference.removeprefix("#/").split("/"))
    return frozenset(_entry(schema, ("properties",)))


def _entry(value: Any, keys: Sequence[str]) -> Mapping[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
