"""Stubs of search providers on loopback, with the replies of the real APIs and recorded requests.

A stub holds a list of results and serves it page by page, as the provider's own paging has it; so
a test of paging fails where the adapter misreads an offset.
"""

from __future__ import annotations

import html
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from aiohttp import web

from tests.site.server import Site

KEY: Final = "canary-key-73b1"


@dataclass(frozen=True, slots=True)
class Result:
    """One result that a stub serves."""

    url: str
    title: str
    snippet: str


def results(count: int, *, first: int = 1) -> list[Result]:
    """Make results whose URLs would not survive being unquoted."""
    return [
        Result(f"https://x.test/{n}%26b?q=1%252", f"Title {n} & more", f"Snippet of {n}")
        for n in range(first, first + count)
    ]


@dataclass(frozen=True, slots=True)
class StubRequest:
    """A request that a stub got: parameters of the URL, form or JSON body, headers, cookies."""

    parameters: Mapping[str, Any]
    headers: Mapping[str, str]
    path: str


@dataclass(slots=True)
class Stub:
    """One provider's server; `answer` turns a request and the results into its reply."""

    name: str
    path: str
    answer: Callable[[StubRequest, list[Result]], Any]
    keyed: bool = False
    method: str = "GET"
    site: Site | None = None
    served: list[Result] = field(default_factory=list)
    requests: list[StubRequest] = field(default_factory=list)
    other: Callable[[StubRequest], web.Response] | None = None
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None

    def on(self, site: Site) -> str:
        """Serve on `site`, and return the address to put into the settings."""
        self.site = site
        site.under(self.path, self._handle)
        return site.at(self.path)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self.site is not None
        parsed = _parse_request(request, self.site.hits(request.raw_path)[-1].body)
        if parsed.path.startswith(self.path):
            self.requests.append(parsed)
        if self.handler is not None:
            return await self.handler(request)
        if self.other is not None:
            return self.other(parsed)
        if self.method not in {"*", request.method}:
            return web.Response(status=405)
        answer = self.answer(parsed, self.served)
        if isinstance(answer, web.Response):
            return answer
        if isinstance(answer, str):
            return web.Response(text=answer, content_type="text/html")
        return web.json_response(answer)


def _parse_request(request: web.BaseRequest, body: bytes) -> StubRequest:
    parameters: dict[str, Any] = {
        name: values[-1]
        for name, values in parse_qs(
            urlsplit(request.path_qs).query, keep_blank_values=True
        ).items()
    }
    kind = request.headers.get("Content-Type", "")
    if kind.startswith("application/json"):
        parameters |= json.loads(body)
    elif body:
        parameters |= {name: values[-1] for name, values in parse_qs(body.decode()).items()}
    headers = {name.lower(): value for name, value in request.headers.items()}
    return StubRequest(parameters, headers, request.path)


def _page_of(served: list[Result], *, size: int, start: int) -> list[Result]:
    return served[start : start + size]


def _searxng(request: StubRequest, served: list[Result]) -> Any:
    p = request.parameters
    if p.get("format") != "json":
        return web.Response(status=403)
    found = _page_of(served, size=10, start=(int(p["pageno"]) - 1) * 10)
    return {
        "query": p["q"],
        "number_of_results": 0,
        "results": [
            {
                "url": one.url,
                "title": one.title,
                "content": one.snippet,
                "engine": "bing",
                "engines": ["bing"],
                "positions": [n],
                "score": 1.0 / n,
                "category": "general",
                "publishedDate": None,
            }
            for n, one in enumerate(found, start=1)
        ],
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": ["other words"],
        "unresponsive_engines": [],
    }


def _brave(request: StubRequest, served: list[Result]) -> Any:
    p, size = request.parameters, int(request.parameters["count"])
    if request.headers.get("x-subscription-token") != KEY:
        reply = {"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}
        return web.json_response(reply, status=422)
    if not 1 <= size <= 20 or not 0 <= int(p["offset"]) <= 9:
        return web.json_response({"type": "ErrorResponse"}, status=422)
    start = int(p["offset"]) * size
    found = _page_of(served, size=size, start=start)
    reply = {
        "type": "search",
        "query": {"original": p["q"], "more_results_available": len(served) > start + size},
        "mixed": {"type": "mixed"},
    }
    if found:
        rows = [
            {"type": "search_result", "url": r.url, "title": r.title, "description": r.snippet}
            for r in found
        ]
        reply["web"] = {"type": "search", "results": rows}
    limits = {"X-RateLimit-Limit": "1000, 15000", "X-RateLimit-Remaining": "999, 9"}
    return web.json_response(reply, headers=limits)


def _serper(request: StubRequest, served: list[Result]) -> Any:
    p, size = request.parameters, int(request.parameters["num"])
    if request.headers.get("x-api-key") != KEY:
        return web.json_response({"message": "Unauthorized.", "statusCode": 403}, status=403)
    if size > 100:
        return web.json_response({"message": "num"}, status=400)
    found = _page_of(served, size=size, start=(p["page"] - 1) * size)
    return {
        "searchParameters": {"q": p["q"], "type": "search", "engine": "google"},
        "ads": [{"link": "https://ad.test/", "title": "An ad"}],
        "organic": [
            {"title": r.title, "link": r.url, "snippet": r.snippet, "position": n}
            for n, r in enumerate(found, start=1)
        ],
        "peopleAlsoAsk": [{"question": "?", "link": "https://paa.test/"}],
        "credits": 1,
    }


def _tavily(request: StubRequest, served: list[Result]) -> Any:
    size = request.parameters["max_results"]
    if request.headers.get("authorization") != f"Bearer {KEY}":
        reply = {"detail": {"error": "Unauthorized: missing or invalid API key."}}
        return web.json_response(reply, status=401)
    if size > 20:
        return web.json_response({"detail": {"error": "max_results"}}, status=400)
    return {
        "query": request.parameters["query"],
        "answer": None,
        "images": [],
        "results": [
            {
                "url": r.url,
                "title": r.title,
                "content": r.snippet,
                "score": 0.9,
                "raw_content": None,
            }
            for r in served[:size]
        ],
        "response_time": 0.5,
    }


def _exa(request: StubRequest, served: list[Result]) -> Any:
    if request.headers.get("x-api-key") != KEY:
        return web.json_response({"error": "Invalid API key", "tag": "INVALID_API_KEY"}, status=401)
    return {
        "requestId": "b5947044c4b78efa9552a7c89b306d95",
        "resolvedSearchType": "neural",
        "results": [
            {"id": r.url, "url": r.url, "title": r.title, "score": 0.2, "text": r.snippet}
            for r in served[: request.parameters["numResults"]]
        ],
        "costDollars": {"total": 0.005},
    }


def _mojeek(request: StubRequest, served: list[Result]) -> Any:
    p = request.parameters
    if p.get("api_key") != KEY:
        return {"response": {"status": "ERROR: Invalid API Key"}}
    start = int(p["s"]) - 1
    found = _page_of(served, size=int(p["t"]), start=start)
    return {
        "response": {
            "status": "OK",
            "head": {
                "query": p["q"],
                "timer": 0.1,
                "start": start,
                "return": len(found),
                "results": len(served),
            },
            "results": [
                {"url": r.url, "title": r.title, "desc": r.snippet, "timestamp": 1, "score": 1.0}
                for r in found
            ],
        }
    }


def _marginalia(request: StubRequest, served: list[Result]) -> Any:
    p = request.parameters
    if request.headers.get("api-key") not in {KEY, "public"}:
        return web.Response(status=403)
    size = int(p["count"])
    found = _page_of(served, size=size, start=(int(p["page"]) - 1) * size)
    return {
        "license": "CC-BY-NC-SA 4.0",
        "query": p["query"],
        "page": int(p["page"]),
        "pages": -(-len(served) // size),
        "results": [
            {"url": r.url, "title": r.title, "description": r.snippet, "quality": 3.0}
            for r in found
        ],
    }


def _mediawiki(request: StubRequest, served: list[Result]) -> Any:
    p = request.parameters
    start, size = int(p["sroffset"]), int(p["srlimit"])
    found = _page_of(served, size=size, start=start)
    reply: dict[str, Any] = {
        "batchcomplete": True,
        "query": {
            "general": {"server": "//x.test", "articlepath": "/$1", "sitename": "Wiki"},
            "searchinfo": {"totalhits": len(served)},
            "search": [
                {
                    "ns": 0,
                    "title": r.title,
                    "pageid": n,
                    "snippet": f'<span class="searchmatch">{html.escape(r.snippet)}</span>',
                }
                for n, r in enumerate(found)
            ],
        },
    }
    if start + size < len(served):
        reply["continue"] = {"sroffset": start + size, "continue": "-||"}
    return reply


def wiki_address(result: Result) -> str:
    """Return the address that the wiki's page of a result has."""
    return "https://x.test/" + quote(result.title.replace(" ", "_"))


def _scraped(found: list[Result], item: str, before: str = "", after: str = "") -> str:
    rows = "".join(
        item.format(
            url=html.escape(r.url),
            packed=quote(r.url, safe=""),
            title=html.escape(r.title),
            snippet=html.escape(r.snippet),
        )
        for r in found
    )
    return f"<!doctype html><html><body>{before}{rows}{after}</body></html>"


def _duckduckgo(request: StubRequest, served: list[Result]) -> Any:
    start = int(request.parameters.get("s", 0))
    item = (
        '<div class="links_main links_deep result__body"><h2 class="result__title"><a>{title}</a>'
        '</h2><a class="result__snippet" href="//duckduckgo.com/l/?uddg={packed}&amp;rut=0">'
        "{snippet}</a></div>"
    )
    ad = (
        '<div class="result__body"><h2>Ad</h2>'
        '<a href="https://duckduckgo.com/y.js?ad_domain=ad.test">Buy</a></div>'
    )
    size = 10 if start == 0 else 15
    return _scraped(served[start : start + size], item, before=ad)


def _ddgs_brave(request: StubRequest, served: list[Result]) -> Any:
    start = int(request.parameters.get("offset", 0)) * 20
    item = (
        '<div class="snippet" data-type="web"><a href="{url}"><div class="title">{title}</div></a>'
        '<div class="generic-snippet snippet"><div class="content">{snippet}'
        "</div></div></div>"
    )
    return _scraped(served[start : start + 20], item)


def _startpage(request: StubRequest, served: list[Result]) -> Any:
    if request.path == "/":
        return '<form id="search"><input name="sc" value="sc-token"></form>'
    if request.parameters.get("sc") != "sc-token":
        return web.Response(status=403)
    start = (int(request.parameters.get("page", 1)) - 1) * 10
    item = '<div class="result css-1"><a href="{url}"><h2>{title}</h2></a><p>{snippet}</p></div>'
    ad = '<div class="result css-1"><a href="https://www.google.com/aclk?x"><h2>Ad</h2></a></div>'
    return _scraped(served[start : start + 10], item, before=ad)


def _yahoo(request: StubRequest, served: list[Result]) -> Any:
    start = int(request.parameters.get("b", 1)) - 1
    item = (
        '<div class="dd algo algo-sr relsrch"><div class="compTitle options-toggle"><h3><a>{title}'
        '</a></h3><a href="https://r.search.yahoo.com/_ylt=A/RV=2/RO=10/RU={packed}/RK=2/RS=k-">.'
        '</a></div><div class="compText aAbs"><p>{snippet}</p></div></div>'
    )
    ad = (
        '<div class="relsrch"><div class="Title"><h3>Ad</h3>'
        '<a href="https://www.bing.com/aclick?ld=e8">x</a></div></div>'
    )
    return _scraped(served[start : start + 7], item, before=ad)


def _ddgs_mojeek(request: StubRequest, served: list[Result]) -> Any:
    start = int(request.parameters.get("s", 1)) - 1
    item = '<li><h2><a class="title" href="{url}">{title}</a></h2><p class="s">{snippet}</p></li>'
    return _scraped(served[start : start + 10], item, '<ul class="results-standard">', "</ul>")


def stubs() -> dict[str, Stub]:
    """Return a fresh stub of every provider but the local index."""
    made = (
        Stub("searxng", "/search", _searxng),
        Stub("brave", "/res/v1/web/search", _brave, keyed=True),
        Stub("serper", "/search", _serper, keyed=True, method="POST"),
        Stub("tavily", "/search", _tavily, keyed=True, method="POST"),
        Stub("exa", "/search", _exa, keyed=True, method="POST"),
        Stub("mojeek", "/search", _mojeek, keyed=True),
        Stub("marginalia", "/search", _marginalia),
        Stub("mediawiki", "/w/api.php", _mediawiki),
        Stub("ddgs.duckduckgo", "/html/", _duckduckgo, method="POST"),
        Stub("ddgs.brave", "/search", _ddgs_brave),
        Stub("ddgs.startpage", "/", _startpage, method="*"),
        Stub("ddgs.yahoo", "/search", _yahoo),
        Stub("ddgs.mojeek", "/search", _ddgs_mojeek),
    )
    return {stub.name: stub for stub in made}
