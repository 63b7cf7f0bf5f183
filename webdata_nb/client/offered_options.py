"""Checks that a service offers options that change what a caller may do with the answer.

Another service may ignore an option that it does not know. Where that would give rows that the
caller did not want, its OpenAPI document must name the option. Long crawls and site crawls need no
check: only our service has them, and it refuses options that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.client.http import ApiRequest
from webdata_nb.client.transport import Transport
from webdata_nb.contract import paths
from webdata_nb.errors import BadAnswer, NotSupported, ServiceError

# The options of crawls that must not be ignored.
CHECKED: Final = frozenset({"purpose", "rights", "check_links"})


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
