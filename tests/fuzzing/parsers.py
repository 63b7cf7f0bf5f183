"""The parsers of foreign bytes: what each is given, which errors it may raise, and its limits."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.page.documents.office_files import ebook_file, open_file, paragraph, word_file
from tests.page.documents.test_documents import build_pdf
from tests.page.pages import page_source
from tests.page.scrape.fuzz import FORMATS, PIECES
from tests.service.archives import warc_files
from tests.service.search.stubs import KEY, StubRequest, results, stubs
from tests.steps import run_to_completion
from webdata_nb.contract.local import Access
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.dates import find_dates, parse_date, parse_timestamp
from webdata_nb.page.content.page_source import ConversionOptions, PageFact
from webdata_nb.page.declared_refresh import refresh_target
from webdata_nb.page.errors import ExtractError, FetchError, ScrapeError
from webdata_nb.page.extract.coerce import iso_date, iso_datetime, parse_number
from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.prices import parse_amount
from webdata_nb.page.extract.results import EXTRACTION
from webdata_nb.page.extract.schema import read_schema
from webdata_nb.page.scrape.page import html_records, html_tables, markdown_tables, scrape
from webdata_nb.page.sitemap import parse_sitemap
from webdata_nb.page.urls import canonical_url, join_url, parse_link_header
from webdata_nb.service.archives import warc
from webdata_nb.service.archives.archive import (
    UnusableArchive,
    WarcWindow,
    build_index,
    read_wacz,
)
from webdata_nb.service.archives.web_archives import UnreadableIndex, parse_lines, parse_wayback
from webdata_nb.service.crawl.rights.page_signals import PageSignals, RobotsUsage, parse_tdm_file
from webdata_nb.service.crawl.rights.rsl import parse_rsl
from webdata_nb.service.crawl.rights.signal import parse_dictionary
from webdata_nb.service.crawl.robots_rules import RobotsRules
from webdata_nb.service.creatives.google import GoogleTransparencyCenter, urls_in
from webdata_nb.service.creatives.meta import MetaAdLibrary
from webdata_nb.service.creatives.source import AdCreative, CreativesQuery
from webdata_nb.service.errors import SourceError
from webdata_nb.service.foreign_services import has_error, read_error
from webdata_nb.service.models.chat import parse_reply
from webdata_nb.service.models.extraction import is_refusal, parse_answer
from webdata_nb.service.search.providers import ddgs
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    SearchQuery,
    reply_problem,
)
from webdata_nb.service.search.providers.web_apis import WEB_APIS
from webdata_nb.service.web.request import FetchLimits
from webdata_nb.service.web.response_reader import (
    ContentDecoder,
    parse_content_codings,
    repair_head,
)
from webdata_nb.service.workers import worker
from webdata_nb.toolkit.client.webhook_receiver import _parse_event

PAGE: Final = "https://site.test/dir/page.html?q=1"
AT: Final = "2026-01-02T03:04:05Z"
_MIB: Final = 1024 * 1024
_LIMITS: Final = FetchLimits(wire_bytes=_MIB, decoded_bytes=4 * _MIB)
_QUERY: Final = SearchQuery("lamp", 10, "en", "us", safe_search=True, account_id="a")
_ACCESS: Final = Access(url="https://api.test", key=KEY)
_FACTS: Final[frozenset[PageFact]] = frozenset(
    {"metadata", "quality", "sketch", "shape", "audit", "rights"}
)
_TEXT: Final = {"type": "string"}
_SCHEMA: Final = {
    "title": "Product",
    "type": "object",
    "properties": {
        "name": _TEXT,
        "price": {"type": "number"},
        "count": {"type": "integer"},
        "in_stock": {"type": "boolean"},
        "date_published": {"type": "string", "format": "date"},
        "image": {"type": "string", "format": "uri"},
        "author_name": _TEXT,
        "products": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": _TEXT, "price": {"type": "number"}}},
        },
    },
}


@dataclass(frozen=True, slots=True)
class Parser:
    """One way in for foreign bytes.

    Attributes
    ----------
    read
        Reads bytes; returns all that was made of them.
    seeds
        Makes bytes that it reads well, from which others are made.
    errors
        What it may raise, by its own documentation.
    cpu_s
        Processor seconds that an input may take: page workers end a page after five, what runs in
        the service itself has much less.
    output_bytes
        Upper bound of the result.
    pieces
        Texts that mean something to it.
    weight
        Its share of the time.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    errors: tuple[type[Exception], ...] = ()
    cpu_s: float = 1.0
    output_bytes: int = 8 * _MIB
    pieces: Sequence[bytes] = ()
    is_json: bool = False
    max_bytes: int = 64 * 1024
    weight: int = 1


def _choice(data: bytes) -> tuple[int, bytes]:
    """Return the first byte, which chooses a variant, and the rest."""
    return (data[0], data[1:]) if data else (0, b"")


def _each(*seeds: bytes | str, choices: int = 1) -> Callable[[], list[bytes]]:
    """Return seeds with each first byte that chooses something."""
    bodies = [seed.encode() if isinstance(seed, str) else seed for seed in seeds]
    heads = [bytes([choice]) for choice in range(choices)] if choices > 1 else [b""]
    return lambda: [head + body for body in bodies for head in heads]


def _json(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


_HTML_TYPES: Final = ("text/html; charset=utf-8", None, "application/xhtml+xml", "text/html")
_OPTIONS: Final = (
    ConversionOptions((*FORMATS, "tables"), facts=_FACTS),
    ConversionOptions((*FORMATS, "tables"), only_main_content=False, facts=_FACTS),
    ConversionOptions(
        FORMATS, include_tags=("p", "div:has(a)"), exclude_tags=("li > ul",), facts=_FACTS
    ),
)
_TEXT_TYPES: Final = (
    "application/rss+xml",
    "application/json",
    "application/feed+json",
    "text/markdown",
    "text/csv",
    "text/plain",
    "application/xml",
    "application/x-ndjson",
    "application/octet-stream",
    None,
)


def _page(data: bytes) -> object:
    choice, body = _choice(data)
    source = page_source(body, content_type=_HTML_TYPES[choice % len(_HTML_TYPES)])
    return scrape(source, _OPTIONS[choice // 4 % len(_OPTIONS)])


def _extract(data: bytes) -> object:
    options = ConversionOptions((*FORMATS, EXTRACTION), schema=json.dumps(_SCHEMA))
    return worker._scrape_and_extract(
        page_source(data), options, json.dumps(_SCHEMA), outlinks=False
    )


def _records(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return html_records(text, PAGE), html_tables(text, PAGE), markdown_tables(text)


def _evidence(data: bytes) -> object:
    values = {"name": "Lamp", "price": 12.5, "published": "2024-03-01", "in_stock": True, "n": 3}
    return find_evidence(data.decode("utf-8", "replace"), values, url=PAGE)


def _charset(data: bytes) -> object:
    choice, body = _choice(data)
    kind = (None, "text/html", "text/plain; charset=sjis", "text/xml")[choice % 4]
    charset = sniff_charset(body, kind)
    text = decode_text(body, charset)
    text.encode()
    return charset, text


def _robots(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    rules = run_to_completion(RobotsRules.parse_in_steps(text, "webdata"))
    usage = RobotsUsage.of_file("https://site.test/robots.txt", AT, text, "", rules)
    urls = (PAGE, "https://site.test/", "https://site.test/a%2Fb")
    allowed = [run_to_completion(rules.allows_in_steps(url)) for url in urls]
    return rules, allowed, [list(usage.signals(url, None)) for url in (PAGE, "https://site.test/")]


def _rights(data: bytes) -> object:
    choice, body = _choice(data)
    text = body.decode("utf-8", "replace")
    match choice % 4:
        case 0:
            return parse_rsl(body).signals(PAGE, PAGE, "line", AT)
        case 1:
            return parse_tdm_file(body).signals(PAGE, PAGE, AT)
        case 2:
            return parse_dictionary(text)
        case _:
            name, _, value = text.partition(":")
            headers = [(name.strip().lower(), value)]
            signals = PageSignals(PAGE, AT, "webdata")
            return list(signals.of_headers(headers)), list(signals.licenses(headers, ()))


def _addresses(data: bytes) -> object:
    choice, body = _choice(data)
    text = body.decode("utf-8", "replace")
    match choice % 4:
        case 0:
            return refresh_target(PAGE, text, b""), refresh_target(PAGE, None, body)
        case 1:
            return parse_link_header(text)
        case 2:
            return join_url(PAGE, text)
        case _:
            address = canonical_url(text)
            assert canonical_url(address) == address, "a canonical URL changes again"
            return address, canonical_key(address)


def _text_document(data: bytes) -> object:
    choice, body = _choice(data)
    kind = _TEXT_TYPES[choice % len(_TEXT_TYPES)]
    return scrape(page_source(body, url="http://site.test/f", content_type=kind), _OPTIONS[0])


def _document(data: bytes) -> object:
    source = page_source(data, url="http://site.test/f", content_type="application/octet-stream")
    return scrape(source, _OPTIONS[0])


@cache
def _office_files() -> tuple[bytes, ...]:
    table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    word = word_file(paragraph("x", '<w:pStyle w:val="Heading1"/>') + table)
    text = open_file(
        "text", '<text:h text:outline-level="1">T</text:h><text:p>a <text:s/>b</text:p>'
    )
    cell = (
        '<table:table-cell table:number-columns-repeated="3"><text:p>1</text:p></table:table-cell>'
    )
    sheet = open_file(
        "spreadsheet",
        f'<table:table table:name="S"><table:table-row>{cell}</table:table-row></table:table>',
    )
    slides = open_file(
        "presentation",
        '<draw:page draw:name="p"><draw:frame><draw:text-box><text:p>x</text:p></draw:text-box>'
        "</draw:frame></draw:page>",
    )
    book = ebook_file({"a.xhtml": "<html><body><h1>One</h1><p>x</p></body></html>"})
    return (word, text, sheet, slides, book, _workbook(), _presentation())


def _workbook() -> bytes:
    import xlsxwriter  # noqa: PLC0415 - only the seeds need it

    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet("Sheet")
        sheet.write_row(0, 0, ["name", 1.5, True])
        sheet.write_datetime(1, 0, datetime(2024, 5, 6), book.add_format({"num_format": "d/m/yy"}))  # noqa: DTZ001 - of a cell
        sheet.write_url(2, 0, "https://a.test/", string="link")
        sheet.merge_range("A4:B5", "merged")
    return file.getvalue()


def _presentation() -> bytes:
    import pptx  # noqa: PLC0415 - only the seeds need it

    made, file = pptx.Presentation(), io.BytesIO()
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "Title"
    slide.placeholders[1].text = "point"
    slide.notes_slide.notes_text_frame.text = "note"
    made.save(file)
    return file.getvalue()


@cache
def _office_parts() -> list[tuple[dict[str, bytes], str]]:
    """Return the XML parts of the files: all members of the file, and the name of the part."""
    parts = []
    for body in _office_files():
        with zipfile.ZipFile(io.BytesIO(body)) as package:
            members = {name: package.read(name) for name in package.namelist()}
        names = [
            name
            for name in members
            if name.endswith((".xml", ".rels", ".opf", ".xhtml"))
            and "theme" not in name
            and "slideLayout" not in name.partition("/_rels")[0]
        ]
        parts += [(members, name) for name in names]
    return parts[:250]


def _office_part(data: bytes) -> object:
    """Read an office document of which one part is foreign."""
    choice, body = _choice(data)
    parts = _office_parts()
    members, name = parts[choice % len(parts)]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        for each, content in members.items():
            # Without a date, so that the same input is the same file.
            package.writestr(zipfile.ZipInfo(each), body if each == name else content)
    return _document(file.getvalue())


def _archive(data: bytes) -> object:
    file = io.BytesIO(data)
    index = build_index(file, (WarcWindow(0, len(data)),), lambda: None)
    found: list[object] = [len(index), index.problems]
    for record in warc.WarcFile(file, 0, len(data)).records():
        again = warc.read_record(file, record.offset, len(data))
        try:
            found.append(warc.read_response(again, _LIMITS))
        except (FetchError, warc.BrokenRecord) as error:
            found.append(str(error))
    return found


def _package(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wacz"
        path.write_bytes(data)
        package = read_wacz(path)
        with path.open("rb") as file:
            index = build_index(file, package.windows, lambda: None)
    return package.pages, len(index), index.problems


def _warc_files() -> list[bytes]:
    page = warc_files.response(PAGE, b"<p>x</p>")
    chunked = warc_files.http_response(b"3\r\nabc\r\n0\r\n\r\n", transfer_encoding="chunked")
    packed = warc_files.http_response(zlib.compress(b"text"), content_encoding="deflate")
    records = [
        warc_files.record("warcinfo", "", b"software: x\r\n"),
        page,
        warc_files.record("response", f"{PAGE}&a=2", chunked),
        warc_files.record("response", f"{PAGE}&a=3", packed),
        warc_files.record("revisit", PAGE, b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        warc_files.record("resource", PAGE, b"x", fields={"Content-Type": "text/plain"}),
    ]
    return [b"".join(records), warc_files.compressed(records), page]


def _packages() -> list[bytes]:
    file = io.BytesIO()
    pages = b'{"format": "json-pages-1.0"}\n{"url": "%s", "seed": true}\n' % PAGE.encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        package.writestr("archive/a.warc", _warc_files()[2])
        package.writestr("archive/b.warc.gz", _warc_files()[1])
        package.writestr("pages/pages.jsonl", pages)
    return [file.getvalue()]


def _index(data: bytes) -> object:
    choice, body = _choice(data)
    return parse_lines(body, "CC") if choice % 2 else parse_wayback(body, "wayback")


def _codings(data: bytes) -> object:
    choice, body = _choice(data)
    if choice % 8 == 0:
        head, _, value = body.partition(b"\0")
        return repair_head(head + b"\r\n\r\n"), parse_content_codings([value.decode("latin-1")])
    codings = (("gzip",), ("deflate",), ("br",), ("zstd",), ("gzip", "br"), ("gzip", "gzip"))
    decoder = ContentDecoder(codings[choice // 8 % len(codings)], 4 * _MIB)
    for start in range(0, len(body), 1000):
        decoder.feed(body[start : start + 1000])
    return decoder.finish()


def _coded() -> list[bytes]:
    gz, deflated = zlib.compressobj(wbits=31), zlib.compress(b"text " * 50)
    packed = gz.compress(b"text " * 50) + gz.flush()
    head = b"HTTP/1.1 200 OK\r\nServer : x\r\n junk\r\nContent-Length: 3\r\n\r\n\0gzip, br"
    return [bytes([0]) + head, bytes([1]) + packed, bytes([9]) + deflated]


def _foreign_json(data: bytes) -> object:
    value = decode_json(data)
    msgspec.json.encode(value)  # "every string of the result can be encoded"
    return value


def _provider(data: bytes) -> object:
    choice, body = _choice(data)
    api = WEB_APIS[choice % len(WEB_APIS)]
    status = (200, 200, 200, 400, 403, 429, 500)[choice // len(WEB_APIS) % 7]
    headers = {"content-type": "application/json", "x-ratelimit-limit": "1, 15000"}
    reply = ProviderReply(status, headers, body)
    error = read_error(body, status=status, service=api.name, secrets=(KEY,), echoes=("lamp",))
    found: list[object] = [
        has_error(body),
        error,
        api.parse_interval_s(reply),
        str(api.parse_problem(reply)),
        str(reply_problem(reply, error, needs_key=api.needs_key, retry_after_s=None)),
    ]
    assert KEY not in repr(found), "shows the key"
    return [*found, api.parse_page(_QUERY, 1, reply)]


def _provider_replies() -> list[bytes]:
    found = []
    servers = stubs()
    for number, api in enumerate(WEB_APIS):
        request = api.build_request(_QUERY, 1, _ACCESS)
        assert request is not None
        address = urlsplit(request.url)
        parameters = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if request.body is not None:
            parameters |= json.loads(request.body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = servers[api.name].answer(
            StubRequest(parameters, headers, address.path), results(3)
        )
        bodies = _json({"error": {"message": f"Invalid API key {KEY}", "code": 3}})
        if isinstance(answer, dict | list):
            bodies += _json(answer)
        found += [bytes([number + 8 * status]) + body for body in bodies for status in (0, 3, 4)]
    return found


_BACKENDS: Final = ("duckduckgo", "brave", "startpage", "yahoo", "mojeek")


def _search_page(data: bytes) -> object:
    """Read a public search page; of its errors the caller makes one of the provider."""
    from ddgs.engines import ENGINES  # noqa: PLC0415 - slow to import

    choice, body = _choice(data)
    engine = object.__new__(ENGINES["text"][_BACKENDS[choice % len(_BACKENDS)]])
    engine.results = []
    return ddgs._parse_results(engine, body.decode("utf-8", "replace"))


def _search_pages() -> list[bytes]:
    found = []
    for number, backend in enumerate(_BACKENDS):
        parameters = {"q": "lamp", "query": "lamp", "p": "lamp"}
        try:
            answer = stubs()[f"ddgs.{backend}"].answer(
                StubRequest(parameters, {}, "/search"), results(3)
            )
        except KeyError:
            continue
        if isinstance(answer, str):
            found.append(bytes([number]) + answer.encode())
    return found


_FIELDS: Final = read_schema(_SCHEMA)


def _model(data: bytes) -> object:
    choice, body = _choice(data)
    if choice % 2:
        text = body.decode("utf-8", "replace")
        return (
            is_refusal(text),
            parse_answer(text, _FIELDS, base_url=PAGE),
            parse_answer(text, None),
        )
    reply = parse_reply(body)
    return reply, parse_answer(reply.text, _FIELDS, base_url=PAGE)


def _model_replies() -> list[bytes]:
    answer = json.dumps({"name": "Lamp", "price": "$1,299.00", "products": [{"name": "a"}]})
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    messages = [
        {"content": answer},
        {"content": [{"type": "text", "text": f"```json\n{answer}\n```"}]},
        {"content": None, "tool_calls": [{"function": {"arguments": answer}}]},
    ]
    replies = _json(
        *(
            {"choices": [{"message": each, "finish_reason": "stop"}], "usage": usage}
            for each in messages
        )
    )
    return [*(b"\0" + each for each in replies), b"\1" + answer.encode()]


def _await(awaitable: Awaitable[Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def _creatives(data: bytes) -> object:
    choice, body = _choice(data)
    value = decode_json(body)

    async def reply(*_args: Any, **_named: Any) -> Any:
        return value

    client: Any = SimpleNamespace(fetch_json=reply)
    google, meta = GoogleTransparencyCenter(client), MetaAdLibrary(client, token="t")
    match choice % 6:
        case 0:
            return _await(google.list_page(CreativesQuery("AR1")))
        case 1:
            return _await(google.with_details(AdCreative("AR1", "CR1")))
        case 2:
            return _await(google.find_advertisers("lamps", limit=5))
        case 3:
            return _await(google.find_advertisers("lamps.test", limit=5))
        case 4:
            return _await(meta.list_page(CreativesQuery("1")))
        case _:
            return _await(meta.find_advertisers("lamps", limit=5))


def _creatives_replies() -> list[bytes]:
    shown = {"6": {"1": "1700000000"}, "7": {"1": "1700000000"}}
    row = {"1": "AR1", "2": "CR1", "3": {"1": {"4": "https://tpc.googlesyndication.com/a.js"}}}
    detail = {"1": row | shown | {"5": [{"1": {"4": "https://i.ytimg.com/a.png"}}], "8": 1}}
    detail["1"] |= {"17": [{"1": 2276, "3": {"1": 4}}], "22": {"1": "Ann"}}
    found = {"1": [{"1": {"1": "Lamps", "2": "AR1", "3": "DE", "4": {"2": {"1": "1", "2": "9"}}}}]}
    ad = {
        "id": "1",
        "page_id": "1",
        "page_name": "Lamps",
        "ad_delivery_start_time": "2024-01-02",
        "impressions": {"lower_bound": "1", "upper_bound": "999"},
        "publisher_platforms": ["facebook"],
        "ad_snapshot_url": "https://www.facebook.com/ads/archive/render_ad/?id=1&access_token=t",
        "ad_creative_link_titles": ["Title"],
        "languages": ["de"],
    }
    rows = {"1": [row | shown | {"12": "Ann"}], "2": "next"}
    ads = {"data": [ad], "paging": {"cursors": {"after": "x"}, "next": "https://g.test/"}}
    values = _json(rows, detail, found, rows, ads, ads)
    return [bytes([number]) + value for number, value in enumerate(values)]


def _script(data: bytes) -> object:
    source = GoogleTransparencyCenter(SimpleNamespace(), home="https://h.test")  # type: ignore[arg-type]
    urls = list(urls_in(data.decode("utf-8", "replace")))
    return urls, [source._is_picture(url) for url in urls]


def _values(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return (
        parse_date(text),
        parse_timestamp(text),
        list(find_dates(text)),
        parse_amount(text),
        [
            parse_number(text, decimal_comma=comma, integer=whole)
            for comma in (False, True)
            for whole in (False, True)
        ],
        iso_date(text, "de"),
        iso_datetime(text),
    )


def _event(data: bytes) -> object:
    event = _parse_event(data, None)
    return None if event is None else (event, event.status, event.terminal)


_TAGS: Final = (b"<", b">", b"&#x", b"&amp;", b"</", b"<!--", b"-->", b"<![CDATA[", b"]]>", b'="')
_JSON_PIECES: Final = (b"null", b"[]", b"{}", b'""', b"-1", b"1e999", b"\\ud83d", b"NaN", b"[[[[")
_XML: Final = b'<?xml version="1.0" encoding="UTF-8"?>'

PARSERS: Final[tuple[Parser, ...]] = (
    Parser(
        "page",
        _page,
        _each(*PIECES, b"".join(PIECES[:-2]), choices=3),
        (ScrapeError,),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        weight=3,
        pieces=(*PIECES, *_TAGS),
    ),
    Parser(
        "extract",
        _extract,
        _each(
            '<h1>Lamp</h1><div itemscope itemtype="http://schema.org/Product">'
            '<b itemprop=name>L</b><i itemprop=price content="1.50">1</i></div>'
            "<span class=price>€ 1.299,00</span>",
            '<script type="application/ld+json">{"@type":"Product","@id":"#a","name":"L","offers":'
            '{"price":"1,5","availability":"InStock"},"author":{"@id":"#a"}}</script>',
            "<table><tr><th>Name<th>Price<tr><td>a<td>$2.00</table><dl><dt>Count<dd>3</dl>",
        ),
        (ScrapeError, ExtractError),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        weight=2,
        pieces=(*PIECES, *_TAGS, b'"@graph":[', b'"@id":"#a"', b'"offers":', b"itemprop=name"),
    ),
    Parser(
        "records",
        _records,
        _each(
            "<ul>" + "<li><a href=/a>Lamp</a> <b>$2.50</b> <i>3 May 2024</i>" * 4 + "</ul>",
            "<table><tr><th>a<th>b" + "<tr><td>1<td>2" * 4 + "</table>",
            "| a | b |\n|---|:-:|\n| 1 | 2 |\n",
        ),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        pieces=(*PIECES, *_TAGS, b"|---|", b"\n| a |"),
    ),
    Parser(
        "evidence",
        _evidence,
        _each("<h1>Lamp</h1><p>Price: 12,50 €</p><p>In stock since 1 March 2024</p>", *PIECES),
        cpu_s=5.0,
        pieces=(*PIECES, *_TAGS),
    ),
    Parser(
        "charset",
        _charset,
        _each(
            "<meta charset=sjis>é",
            "é".encode("utf-16"),
            "日本".encode("shift_jis"),
            _XML.replace(b"UTF-8", b"euc-kr"),
            choices=4,
        ),
        pieces=(b"<meta charset=", b"\xff\xfe", b"\x1b$B", b"\x81\x30\x81\x30", b"charset="),
    ),
    Parser(
        "sitemap",
        parse_sitemap,
        _each(
            _XML + b"<urlset><url><loc>http://a.test/</loc></url></urlset>",
            _XML + b"<sitemapindex><sitemap><loc>http://a.test/s</loc></sitemap></sitemapindex>",
            '<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="http://a.test/"/></entry></feed>',
            "http://a.test/1\nhttp://a.test/2\n",
            zlib.compress(b"http://a.test/1\n", wbits=31),
        ),
        pieces=(*_TAGS, b"<url><loc>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;"),
    ),
    Parser(
        "robots.txt",
        _robots,
        _each(
            "User-agent: *\nDisallow: /*a$\nAllow: /a%2f\nCrawl-delay: 1.5\nSitemap: /s.xml\n"
            "Content-Usage: train-ai=n\nContent-Signal: ai-train=no\nLicense: /l.xml\n",
            "user-agent: webdata\nuser-agent: b\ndisallow:\n",
        ),
        pieces=(
            b"\nDisallow: /",
            b"*",
            b"$",
            b"%2F",
            b"\nUser-agent: webdata\n",
            b"\nContent-Usage: ",
        ),
    ),
    Parser(
        "rights",
        _rights,
        lambda: [
            (
                b"\0<rsl xmlns='https://rslstandard.org/rsl'><content url='/*'><license>"
                b"<permits type='usage'>search</permits><prohibits>ai-train</prohibits>"
                b"<payment type='free'/></license></content></rsl>"
            ),
            b'\1[{"location": "/a*", "tdm-reservation": 1, "tdm-policy": "https://a.test/"}]',
            b"\2train-ai=n, search=y;q=1, a=(1 2), b=:YQ==:",
            b"\3content-usage: train-ai=n",
            b'\3link: </l.xml>; rel="license"; type="application/rsl+xml"',
            b"\3x-robots-tag: webdata: noindex, noai",
        ],
        pieces=(
            *_TAGS,
            *_JSON_PIECES,
            b"tdm-reservation:",
            b"link:",
            b"content-signal:",
            b"ai-train",
        ),
    ),
    Parser(
        "addresses",
        _addresses,
        lambda: [
            b"\00;url='http://a.test/'",
            b"\0<meta http-equiv=refresh content='0;url=/x'>",
            b'\1</a>; rel=next; title="x", <b>; rel="license up"',
            *(
                bytes([choice]) + url
                for choice in (2, 3)
                for url in (
                    b"http://us\xc3\xa9r:p@[::1]:80/a/../b;c?d=%e9#e",
                    b"HTTP://B\xc3\xbccher.test:443//x",
                    b"//0x7f.1/",
                    b"?a=b&c",
                )
            ),
        ],
        (FetchError,),
        pieces=(
            b"http://",
            b"https://",
            b"xn--",
            b"%",
            b"..",
            b"[::",
            b":80",
            b"\\",
            b"@",
            b";url=",
        ),
    ),
    Parser(
        "text documents",
        _text_document,
        _each(
            "<rss><channel><title>T</title><item><title>a</title><link>http://a.test/</link>"
            "<description>&lt;b>x</description><pubDate>Sat, 02 Mar 2024 10:00:00 GMT</pubDate>"
            "</item></channel></rss>",
            '{"version": "https://jsonfeed.org/version/1", "items": [{"id": 1, "title": "a"}]}',
            "---\ntags: [a, b]\n---\n# H\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[x](y) `c`\n",
            'a,b\n1,"x\ny"\n',
            "text http://a.test/x.\n",
            choices=len(_TEXT_TYPES),
        ),
        (ScrapeError,),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        weight=2,
        pieces=(
            *_TAGS,
            *_JSON_PIECES,
            b"---\n",
            b"&a",
            b"*a",
            b"<<: ",
            b"```",
            b"](",
            b"|---|",
            b"\n> ",
        ),
    ),
    Parser(
        "pdf",
        _document,
        lambda: [
            build_pdf([(20, "Title"), (12, "Text of the page")], [(12, "a")]),
            build_pdf([(12, "x")], actions=("/S /URI /URI (https://a.test/)",)),
        ],
        (ScrapeError,),
        cpu_s=5.0,
        pieces=(
            b" 0 R",
            b" obj\n",
            b"/Kids [",
            b"/Contents ",
            b"BT ",
            b" Tj ET",
            b"<< ",
            b"/Length ",
        ),
    ),
    Parser(
        "office documents",
        _document,
        _office_files,
        (ScrapeError,),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        pieces=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"),
    ),
    Parser(
        "parts of office documents",
        _office_part,
        lambda: [
            bytes([number]) + members[name]
            for number, (members, name) in enumerate(_office_parts())
            if len(members[name]) < 64 * 1024
        ],
        (ScrapeError,),
        cpu_s=5.0,
        output_bytes=32 * _MIB,
        weight=2,
        pieces=(
            *_TAGS,
            b"<w:p>",
            b"<w:tbl>",
            b"<c r='A1' t='s'><v>0</v></c>",
            b"<a:t>",
            b"<text:p>",
        ),
    ),
    Parser(
        "warc",
        _archive,
        _warc_files,
        (UnusableArchive, warc.SeveralRecords),
        pieces=(
            b"WARC/1.0\r\n",
            b"Content-Length: ",
            b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"\x1f\x8b",
        ),
    ),
    Parser(
        "wacz",
        _package,
        _packages,
        (UnusableArchive,),
        pieces=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"WARC/1.0\r\n", b'{"url": "'),
    ),
    Parser(
        "indexes of archives",
        _index,
        lambda: [
            (
                b'\0[["timestamp", "original", "mimetype", "statuscode", "digest", "length"], '
                b'["20240601000000", "http://a.test/", "text/html", "200", "ABC", "12"], '
                b'[], ["key"]]'
            ),
            (
                b'\1{"timestamp": "20240601000000", "url": "http://a.test/", "status": "200", '
                b'"filename": "a.warc.gz", "offset": "1", "length": "2", "mime": "text/html"}\n'
            ),
        ],
        (UnreadableIndex,),
        pieces=(*_JSON_PIECES, b'"20240601000000"', b'"http://a.test/"', b'"offset": '),
        is_json=True,
    ),
    Parser(
        "content codings",
        _codings,
        _coded,
        (FetchError,),
        pieces=(b"\x1f\x8b\x08", b"Content-Length: 3\r\n", b"\r\n", b"\x28\xb5\x2f\xfd"),
    ),
    Parser(
        "json",
        _foreign_json,
        _each('{"a": [1, -2.5e3, "\\ud83d", null, true]}', "[NaN, 1e999, 123456789012345678901]"),
        (MalformedJson,),
        pieces=_JSON_PIECES,
    ),
    Parser(
        "search providers",
        _provider,
        _provider_replies,
        (ProviderProblem,),
        pieces=_JSON_PIECES,
        is_json=True,
    ),
    Parser("search pages", _search_page, _search_pages, (Exception,), pieces=(*PIECES, *_TAGS)),
    Parser(
        "language models",
        _model,
        _model_replies,
        (ExtractError,),
        pieces=(*_JSON_PIECES, b"```json\n", b"<think>", b"$1,299.00"),
        is_json=True,
    ),
    Parser(
        "creatives",
        _creatives,
        _creatives_replies,
        (MalformedJson, SourceError),
        pieces=_JSON_PIECES,
        is_json=True,
    ),
    Parser(
        "scripts of creatives",
        _script,
        _each(r"var a = '<img src=\\x22https:\\/\\/i.ytimg.com\\/a.png\\x22>';"),
        pieces=(b"<img src=", b"\\x22", b"\\u002f", b"https://"),
    ),
    Parser(
        "dates and prices",
        _values,
        _each(
            "3 May 2024",
            "2024-05-03T10:00:00+02:00",
            "Sat, 02 Mar 2024 10:00:00 GMT",
            "1714730400",
            "$1,299.00",
            "1.299,50 €",
            "12.5 kg",
            "CHF 1'200.-",
            "٣ مايو ٢٠٢٤",
            "2024年5月3日",
        ),
        pieces=(
            "€".encode(),
            b"USD",
            b"2024",
            b"May",
            b",",
            b".",
            b":",
            b"T",
            b"+14:00",
            "½".encode(),
        ),
        max_bytes=2048,
    ),
    Parser(
        "webhooks",
        _event,
        _each('{"event": "job.completed", "job_id": "a", "status": "completed"}'),
        pieces=_JSON_PIECES,
        is_json=True,
    ),
)
