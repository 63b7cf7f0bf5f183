"""Adapts the search APIs of the web, one class each: a request of a query, and the page in a reply.

A new one is a subclass of `SearchApi` and an entry in `WEB_APIS` at the end.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from webdata_nb.contract.local import Access
from webdata_nb.foreign_json import member
from webdata_nb.pacing.host_pacing import RateLimitPolicy
from webdata_nb.service.foreign_services import (
    KEY_REFUSED,
    MAX_REASON_CHARS,
    PLAN_USED_UP,
    RATE_LIMITED,
)
from webdata_nb.service.search.providers.api import (
    AttemptStatus,
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    QueryRefused,
    ResultPage,
    SearchApi,
    SearchQuery,
    SearchResult,
    api_key,
    json_request,
    parse_json,
    parse_results,
    plain_text,
    unexpected_shape,
    with_parameters,
)

_SEARXNG_MAX_LISTED: Final = 5
_SEARXNG_STATUS_BY_REASON: Final[tuple[tuple[re.Pattern[str], AttemptStatus], ...]] = (
    (re.compile("captcha|access denied|blocked|forbidden", re.IGNORECASE), "blocked"),
    (re.compile("too many|suspended|limit", re.IGNORECASE), "rate_limited"),
    (re.compile("timeout|timed out", re.IGNORECASE), "timeout"),
)


class Searxng(SearchApi):
    """SearXNG, a self-hosted metasearch engine with its JSON format enabled.

    The instance is the one whose URL the settings name; there is no default.
    """

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
        results = parse_results(items, url="url", snippet="content")
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
    entries = [e for e in engines if isinstance(e, list) and e] if isinstance(engines, list) else []
    reasons = [str(entry[-1]) for entry in entries]
    if not reasons:
        return None
    listed = ", ".join(
        ": ".join(map(plain_text, entry[:2])) for entry in entries[:_SEARXNG_MAX_LISTED]
    )
    message = f"{len(reasons)} of its engines gave no answer ({listed[:MAX_REASON_CHARS]})"
    for pattern, status in _SEARXNG_STATUS_BY_REASON:
        if any(pattern.search(reason) for reason in reasons):
            return ProviderProblem(status, message)
    return ProviderProblem("error", message)


_SERPER_MAX_RESULTS: Final = 100
_SERPER_MIN_RESULTS: Final = 10


class Serper(SearchApi):
    """Serper, an API for Google's results, up to 100 a page.

    It documents no parameter for safe search.
    """

    name = "serper"
    url = "https://google.serper.dev/search"
    needs_key = True

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a POST request."""
        body = {
            "q": query.text,
            "num": max(_SERPER_MIN_RESULTS, min(_SERPER_MAX_RESULTS, query.num_results)),
            "page": number,
            "hl": query.language.lower(),
            "gl": query.country,
        }
        return json_request(access.url or self.url, body, {"X-API-KEY": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the organic results; advertisements and boxes are separate lists."""
        _ = query, number
        return ResultPage(
            parse_results(member(parse_json(reply), "organic"), url="link", snippet="snippet")
        )


_BRAVE_PAGE_SIZE: Final = 20
_BRAVE_MAX_OFFSET: Final = 9
_BRAVE_COUNTRIES: Final = """
AR AU AT BE BR CA CL CN DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO PH PL PT RU SA ZA ES SE CH TW
TR GB US
"""
# Brave's language codes where they differ from the ISO codes.
_BRAVE_LANGUAGES: Final = {
    "ja": "jp",
    "zh": "zh-hans",
    "zh-cn": "zh-hans",
    "zh-sg": "zh-hans",
    "zh-tw": "zh-hant",
    "zh-hk": "zh-hant",
    "zh-hans": "zh-hans",
    "zh-hant": "zh-hant",
    "pt": "pt-pt",
    "pt-br": "pt-br",
    "pt-pt": "pt-pt",
    "en-gb": "en-gb",
}


class Brave(SearchApi):
    """The Brave Search API, which has an index of its own.

    Up to 20 results a page, ten pages; one request a second on the free plan.
    """

    name = "brave"
    url = "https://api.search.brave.com/res/v1/web/search"
    needs_key = True
    # Until a reply names the rate of the plan.
    rate_limit: RateLimitPolicy = RateLimitPolicy(interval_s=1.0)

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a GET request; `offset` counts pages, not results."""
        if number - 1 > _BRAVE_MAX_OFFSET:
            return None
        country = (query.country or "").upper()
        language = query.language.lower()
        address = with_parameters(
            access.url or self.url,
            q=query.text,
            count=min(_BRAVE_PAGE_SIZE, query.num_results),
            offset=number - 1,
            search_lang=_BRAVE_LANGUAGES.get(
                language, _BRAVE_LANGUAGES.get(query.language_code, query.language_code)
            ),
            country=country if country in _BRAVE_COUNTRIES.split() else "ALL",
            safesearch="strict" if query.safe_search else "off",
            result_filter="web",
            text_decorations="false",
        )
        return ProviderRequest(address, headers={"X-Subscription-Token": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the web results; a reply without results has no member `web`."""
        _ = query
        data = parse_json(reply)
        if not isinstance(data, dict) or data.get("type") != "search":
            raise unexpected_shape()
        items = member(data, "web", "results")
        results = parse_results([] if items is None else items, url="url", snippet="description")
        has_more = member(data, "query", "more_results_available") is not False
        return ResultPage(results, has_more=has_more and number - 1 < _BRAVE_MAX_OFFSET)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize an exhausted plan by its headers."""
        if reply.status != HTTPStatus.TOO_MANY_REQUESTS:
            return None
        remaining_requests = _numbers(reply, "x-ratelimit-remaining")
        resets = _numbers(reply, "x-ratelimit-reset")
        exhausted = [
            reset
            for remaining, reset in zip(remaining_requests, resets, strict=False)
            if remaining <= 0
        ]
        return ProviderProblem(
            "rate_limited", RATE_LIMITED, retry_after_s=max(exhausted) if exhausted else None
        )

    def parse_interval_s(self, reply: ProviderReply) -> float | None:
        """Read the rate limit of the plan; the first of the list is per second."""
        limits = _numbers(reply, "x-ratelimit-limit")
        return 1 / limits[0] if limits and limits[0] > 0 else None


def _numbers(reply: ProviderReply, name: str) -> list[float]:
    """Read a header with one number for each time window, the shortest first."""
    try:
        return [float(part) for part in reply.headers.get(name, "").split(",") if part.strip()]
    except ValueError:
        return []


_TAVILY_MAX_RESULTS: Final = 20
_TAVILY_PLAN_LIMITS: Final = frozenset({432, 433})
# Tavily's names of countries by their codes. Other countries are not sent.
_TAVILY_COUNTRY_TABLE: Final = """
af afghanistan|al albania|dz algeria|ad andorra|ao angola|ar argentina|am armenia|au australia
at austria|az azerbaijan|bs bahamas|bh bahrain|bd bangladesh|bb barbados|by belarus|be belgium
bz belize|bj benin|bt bhutan|bo bolivia|ba bosnia and herzegovina|bw botswana|br brazil|bn brunei
bg bulgaria|bf burkina faso|bi burundi|kh cambodia|cm cameroon|ca canada|cv cape verde
cf central african republic|td chad|cl chile|cn china|co colombia|km comoros|cg congo
cr costa rica|hr croatia|cu cuba|cy cyprus|cz czech republic|dk denmark|dj djibouti
do dominican republic|ec ecuador|eg egypt|sv el salvador|gq equatorial guinea|er eritrea
ee estonia|et ethiopia|fj fiji|fi finland|fr france|ga gabon|gm gambia|ge georgia|de germany
gh ghana|gr greece|gt guatemala|gn guinea|ht haiti|hn honduras|hu hungary|is iceland|in india
id indonesia|ir iran|iq iraq|ie ireland|il israel|it italy|jm jamaica|jp japan|jo jordan
kz kazakhstan|ke kenya|kw kuwait|kg kyrgyzstan|lv latvia|lb lebanon|ls lesotho|lr liberia|ly libya
li liechtenstein|lt lithuania|lu luxembourg|mg madagascar|mw malawi|my malaysia|mv maldives|ml mali
mt malta|mr mauritania|mu mauritius|mx mexico|md moldova|mc monaco|mn mongolia|me montenegro
ma morocco|mz mozambique|mm myanmar|na namibia|np nepal|nl netherlands|nz new zealand|ni nicaragua
ne niger|ng nigeria|kp north korea|mk north macedonia|no norway|om oman|pk pakistan|pa panama
pg papua new guinea|py paraguay|pe peru|ph philippines|pl poland|pt portugal|qa qatar|ro romania
ru russia|rw rwanda|sa saudi arabia|sn senegal|rs serbia|sg singapore|sk slovakia|si slovenia
so somalia|za south africa|kr south korea|ss south sudan|es spain|lk sri lanka|sd sudan|se sweden
ch switzerland|sy syria|tw taiwan|tj tajikistan|tz tanzania|th thailand|tg togo
tt trinidad and tobago|tn tunisia|tr turkey|tm turkmenistan|ug uganda|ua ukraine
ae united arab emirates|gb united kingdom|us united states|uy uruguay|uz uzbekistan|ve venezuela
vn vietnam|ye yemen|zm zambia|zw zimbabwe
"""

_TAVILY_COUNTRIES: Final[dict[str, str]] = {
    entry[:2]: entry[3:] for entry in _TAVILY_COUNTRY_TABLE.strip().replace("\n", "|").split("|")
}


class Tavily(SearchApi):
    """Tavily, a search API with one page of at most 20 results.

    It supports countries by name, but neither languages nor safe search.
    """

    name = "tavily"
    url = "https://api.tavily.com/search"
    needs_key = True

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a POST request for the only page."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "max_results": min(_TAVILY_MAX_RESULTS, query.num_results),
            "search_depth": "basic",
            "topic": "general",
            "country": _TAVILY_COUNTRIES.get(query.country or ""),
        }
        return json_request(
            access.url or self.url, body, {"Authorization": f"Bearer {api_key(access)}"}
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query, number
        items = member(parse_json(reply), "results")
        return ResultPage(parse_results(items, url="url", snippet="content"), has_more=False)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize the limits of the plan (432) and of pay-as-you-go (433)."""
        if reply.status in _TAVILY_PLAN_LIMITS:
            return ProviderProblem("rate_limited", PLAN_USED_UP)
        return None


_EXA_MAX_RESULTS: Final = 100
_EXA_SNIPPET_CHARS: Final = 300


class Exa(SearchApi):
    """Exa, a semantic search with one page of at most 100 results.

    It supports country and moderation, but no languages.
    """

    name = "exa"
    url = "https://api.exa.ai/search"
    needs_key = True

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a POST request for the only page."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "numResults": min(_EXA_MAX_RESULTS, query.num_results),
            "userLocation": query.country and query.country.upper(),
            "moderation": query.safe_search,
            "contents": {"text": {"maxCharacters": _EXA_SNIPPET_CHARS}},
        }
        return json_request(access.url or self.url, body, {"x-api-key": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query, number
        items = member(parse_json(reply), "results")
        return ResultPage(parse_results(items, url="url", snippet="text"), has_more=False)


# All plans have this page size. A larger one may be cut, so that pages would skip results.
_MOJEEK_PAGE_SIZE: Final = 10
_MOJEEK_PREFERENCE_BOOST: Final = 10


class Mojeek(SearchApi):
    """The Mojeek API, which has an index of its own.

    Language and country are preferences. Errors have HTTP status 200.
    """

    name = "mojeek"
    url = "https://www.mojeek.com/search"
    needs_key = True

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request; the key is a parameter of the URL."""
        return ProviderRequest(
            with_parameters(
                access.url or self.url,
                api_key=api_key(access),
                q=query.text,
                fmt="json",
                t=_MOJEEK_PAGE_SIZE,
                s=(number - 1) * _MOJEEK_PAGE_SIZE + 1,
                lb=query.language_code.upper(),
                lbb=_MOJEEK_PREFERENCE_BOOST,
                rb=query.country and query.country.upper(),
                rbb=_MOJEEK_PREFERENCE_BOOST if query.country else None,
                safe=1 if query.safe_search else 0,
            )
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `response`. Raises `ProviderProblem` for a status other than OK."""
        _ = query
        data = member(parse_json(reply), "response")
        status = str(member(data, "status") or "")
        if status != "OK":
            words = status.lower()
            if "limit" in words:
                raise ProviderProblem("rate_limited", "the plan's limit is reached")
            if "key" in words or "ip" in words.split() or "denied" in words:
                raise ProviderProblem("auth", KEY_REFUSED)
            if "query" in words or "parameter" in words:
                raise QueryRefused("it reported an error in the query")
            raise ProviderProblem("error", "it reported an error") if status else unexpected_shape()
        results = parse_results(member(data, "results") or [], url="url", snippet="desc")
        total = member(data, "head", "results")
        has_more = not isinstance(total, int) or number * _MOJEEK_PAGE_SIZE < total
        return ResultPage(results, has_more=has_more)


_MARGINALIA_PAGE_SIZE: Final = 100
_MARGINALIA_PUBLIC_KEY: Final = "public"


class Marginalia(SearchApi):
    """Marginalia Search, an index of small sites with a public key that is often exhausted.

    It supports neither languages nor countries; results are under CC-BY-NC-SA 4.0.
    """

    name = "marginalia"
    url = "https://api2.marginalia-search.com/search"
    rate_limit: RateLimitPolicy = RateLimitPolicy(max_concurrent=1)

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request."""
        address = with_parameters(
            access.url or self.url,
            query=query.text,
            count=min(_MARGINALIA_PAGE_SIZE, query.num_results),
            page=number,
            nsfw=1 if query.safe_search else 0,
        )
        return ProviderRequest(
            address, headers={"API-Key": api_key(access) or _MARGINALIA_PUBLIC_KEY}
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query
        data = parse_json(reply)
        results = parse_results(member(data, "results"), url="url", snippet="description")
        pages = member(data, "pages")
        return ResultPage(results, has_more=not isinstance(pages, int) or number < pages)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize an exhausted key (503) and a refused one (403)."""
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return ProviderProblem("rate_limited", "the key's limit is reached")
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem("auth", KEY_REFUSED)
        return None


_MEDIAWIKI_PAGE_SIZE: Final = 50
_MEDIAWIKI_RATE_LIMITS: Final = frozenset({"maxlag", "ratelimited", "readonly"})
# Errors of the wiki itself.
_MEDIAWIKI_SERVER_ERRORS: Final = (
    "internal_api_error",
    "cirrussearch-backend-error",
    "search-error",
)
_MEDIAWIKI_MAXLAG_S: Final = 5


class Mediawiki(SearchApi):
    """The search of MediaWiki: Wikipedia in the query's language, or any other wiki.

    It needs no key. Requests go out one at a time, as the terms of Wikimedia require.

    `{language}` in the URL is replaced by the query's language.
    """

    name = "mediawiki"
    url = "https://{language}.wikipedia.org/w/api.php"
    rate_limit: RateLimitPolicy = RateLimitPolicy(max_concurrent=1)

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request; `siteinfo` adds the URL format of the wiki's pages to the reply."""
        size = min(_MEDIAWIKI_PAGE_SIZE, query.num_results)
        url = access.url or self.url
        return ProviderRequest(
            with_parameters(
                # The contract allows only letters, so the language is safe in a host name.
                url.replace("{language}", query.language_code),
                action="query",
                list="search",
                srsearch=query.text,
                srlimit=size,
                sroffset=(number - 1) * size,
                srprop="snippet",
                meta="siteinfo",
                siprop="general",
                maxlag=_MEDIAWIKI_MAXLAG_S,
                format="json",
                formatversion=2,
            ),
            host_from_query="{language}" in url,
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `query`, and turn titles into URLs."""
        _ = query, number
        data = parse_json(reply)
        if (code := member(data, "error", "code")) is not None:
            code = str(code)
            if code in _MEDIAWIKI_RATE_LIMITS:
                raise ProviderProblem("rate_limited", "it reported an error")
            if code.startswith(_MEDIAWIKI_SERVER_ERRORS):
                raise ProviderProblem("error", "it reported an error")
            # Others name the invalid parameter, such as cirrussearch-query-too-long and badvalue.
            raise QueryRefused("it reported an error in the query")
        general = member(data, "query", "general")
        items = member(data, "query", "search")
        if not isinstance(items, list) or not isinstance(general, dict):
            raise unexpected_shape()
        server, path = str(general.get("server", "")), str(general.get("articlepath", "/wiki/$1"))
        base = f"https:{server}" if server.startswith("//") else server
        results = tuple(
            SearchResult(
                base + path.replace("$1", quote(row["title"].replace(" ", "_"), safe="/:@!$*(),;")),
                plain_text(row["title"]),
                plain_text(row.get("snippet")),
            )
            for row in items
            if isinstance(row, dict) and isinstance(row.get("title"), str)
        )
        return ResultPage(results, has_more=member(data, "continue") is not None)


WEB_APIS: Final[tuple[SearchApi, ...]] = (
    Searxng(),
    Serper(),
    Brave(),
    Tavily(),
    Exa(),
    Mojeek(),
    Marginalia(),
    Mediawiki(),
)
