"""SearXNG: a metasearch engine on the user's own machine, with JSON switched on."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.contract.local import Access
from webdata_nb.service.search.providers.api import (
    ApiReply,
    ApiRequest,
    SearchApiDefaults,
    parse_json,
    parse_results,
    with_parameters,
)
from webdata_nb.service.search.providers.base import (
    AttemptStatus,
    ProviderProblem,
    ResultPage,
    SearchQuery,
)

_REASONS: Final[tuple[tuple[re.Pattern[str], AttemptStatus], ...]] = (
    (re.compile("captcha|access denied|blocked|forbidden", re.IGNORECASE), "blocked"),
    (re.compile("too many|suspended|limit", re.IGNORECASE), "rate_limited"),
    (re.compile("timeout|timed out", re.IGNORECASE), "timeout"),
)


class Searxng(SearchApiDefaults):
    """The instance whose address the settings name; there is no default one."""

    name = "searxng"
    url = ""

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest:
        """See `Api.exchange`. It has neither a count nor a country of its own."""
        base = (access.url or "").rstrip("/")
        address = base if base.endswith("/search") else f"{base}/search"
        return ApiRequest(
            with_parameters(
                address,
                q=query.text,
                format="json",
                language=query.locale,
                pageno=number,
                safesearch=2 if query.safe_search else 0,
                categories="general",
            )
        )

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """See `Api.page`. Without results, what its own engines say is the answer."""
        _ = query, number
        told = parse_json(reply)
        listed = told.get("results") if isinstance(told, dict) else None
        found = parse_results(listed, url="url", title="title", snippet="content")
        if not found and (problem := _unresponsive(told.get("unresponsive_engines"))):
            raise problem
        return ResultPage(found)

    def problem(self, reply: ApiReply) -> ProviderProblem | None:
        """See `Api.problem`."""
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem(
                "blocked", "HTTP 403: is `json` among search.formats in its settings?"
            )
        return None


def _unresponsive(engines: Any) -> ProviderProblem | None:
    """Say why no engine of the instance answered; each entry is a name and a reason."""
    reasons = [str(entry[-1]) for entry in engines or () if isinstance(entry, list) and entry]
    if not reasons:
        return None
    for pattern, status in _REASONS:
        if any(pattern.search(reason) for reason in reasons):
            return ProviderProblem(status, f"{len(reasons)} of its engines gave no answer")
    return ProviderProblem("error", f"{len(reasons)} of its engines gave no answer")
