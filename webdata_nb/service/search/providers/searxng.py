"""Adapts SearXNG, a self-hosted metasearch engine with its JSON format enabled."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

from webdata_nb.contract.local import Access
from webdata_nb.service.foreign_services import MAX_REASON_CHARS
from webdata_nb.service.search.providers.api import (
    AttemptStatus,
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    ResultPage,
    SearchApi,
    SearchQuery,
    parse_json,
    parse_results,
    plain_text,
    with_parameters,
)

_MAX_LISTED: Final = 5
_STATUS_BY_REASON: Final[tuple[tuple[re.Pattern[str], AttemptStatus], ...]] = (
    (re.compile("captcha|access denied|blocked|forbidden", re.IGNORECASE), "blocked"),
    (re.compile("too many|suspended|limit", re.IGNORECASE), "rate_limited"),
    (re.compile("timeout|timed out", re.IGNORECASE), "timeout"),
)


class Searxng(SearchApi):
    """The instance whose URL the settings name; there is no default."""

    name = "searxng"
    url = ""

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request; there are no parameters for count and country."""
        base = (access.url or "").rstrip("/")
        address = base if base.endswith("/search") else f"{base}/search"
        return ProviderRequest(
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

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the results. Raises `ProviderProblem` where its engines failed instead."""
        _ = query, number
        data = parse_json(reply)
        items = data.get("results") if isinstance(data, dict) else None
        results = parse_results(items, url="url", title="title", snippet="content")
        if not results and (problem := _problem_of_engines(data.get("unresponsive_engines"))):
            raise problem
        return ResultPage(results)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Explain status 403: the JSON format is disabled."""
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem(
                "blocked",
                "it refuses the JSON format: is `json` among search.formats in its settings?",
            )
        return None


def _problem_of_engines(engines: Any) -> ProviderProblem | None:
    """Return the problem of the instance's engines; each entry is a name and a reason."""
    entries = [entry for entry in engines or () if isinstance(entry, list) and entry]
    reasons = [str(entry[-1]) for entry in entries]
    if not reasons:
        return None
    listed = ", ".join(": ".join(map(plain_text, entry[:2])) for entry in entries[:_MAX_LISTED])
    message = f"{len(reasons)} of its engines gave no answer ({listed[:MAX_REASON_CHARS]})"
    for pattern, status in _STATUS_BY_REASON:
        if any(pattern.search(reason) for reason in reasons):
            return ProviderProblem(status, message)
    return ProviderProblem("error", message)
