"""When a page was published and modified: declared, in its URL, or visible."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.pages import WHOLE_PAGE, page_source, scrape_in_worker
from webdata_nb.page.scrape.page import ConversionOptions, scrape

PROSE = "<p>" + "The council met again and talked about many things at length. " * 5 + "</p>"


def dates_of(body: str, url: str = "http://site.test/page", **page: Any) -> tuple[Any, ...]:
    """Return `published` and its source."""
    found = scrape(page_source(body, url=url, **page), WHOLE_PAGE).metadata
    return found["published"], found["sources"].get("published")


def article(byline: str, *, language: str = "en", before: str = "", after: str = "") -> str:
    return (
        f'<html lang="{language}"><title>Budget raised - Daily</title><body>{before}'
        f"<h1>Budget raised</h1>{byline}{PROSE}{after}"
    )


def json_ld(properties: str) -> str:
    return f'<script type="application/ld+json">{{"@type": "NewsArticle", {properties}}}</script>'


@pytest.mark.parametrize(
    ("head", "published", "source"),
    [
        (
            '<meta property="article:published_time" content="2024-05-06T07:08:09+02:00">',
            "2024-05-06T07:08:09+02:00",
            "meta:article:published_time",
        ),
        (json_ld('"datePublished": "2024-05-06"'), "2024-05-06", "json_ld:datePublished"),
        ('<meta name="dc.date.issued" content="20240506">', "2024-05-06", "meta:dc.date.issued"),
        ('<meta name="date" content="6 mai 2024">', "2024-05-06", "meta:date"),
        ('<meta name="pubdate" content="1714979289">', "2024-05-06T07:08:09+00:00", "meta:pubdate"),
        ('<meta name="created" content="2024-05-06">', "2024-05-06", "meta:created"),
        ('<meta name="last-modified" content="2024-05-06">', "2024-05-06", "meta:last-modified"),
        ('<meta name="pubdate" content="1988"><meta name="date" content="x">', None, None),
        ('<meta name="pubdate" content="1994-12-31">', None, None),
        ('<meta name="pubdate" content="2026-01-04">', None, None),
        ('<meta name="pubdate" content="2026-01-03">', "2026-01-03", "meta:pubdate"),
    ],
)
def test_declared_dates(head: str, published: str | None, source: str | None) -> None:
    assert dates_of(f"<head>{head}</head><p>x") == (published, source)


@pytest.mark.parametrize(
    ("path", "published"),
    [
        ("/2024/05/06/budget", "2024-05-06"),
        ("/2024-5-6-budget.html", "2024-05-06"),
        ("/news/20240506/budget", "2024-05-06"),
        ("/news/1-20240506-budget", "2024-05-06"),
        ("/2024/05/budget", None),
        ("/2024/13/06/budget", None),
        ("/2031/05/06/budget", None),
        ("/id/120240506", None),
        ("/item20240506x", None),
        ("/2024-05/06-budget", None),
    ],
)
def test_dates_in_urls(path: str, published: str | None) -> None:
    found = dates_of("<p>x", "http://site.test" + path)
    assert found == (published, "url" if published else None)


def test_url_gives_the_day_and_metadata_the_time() -> None:
    url = "http://site.test/2024/05/06/budget"
    same_day = '<meta property="article:published_time" content="2024-05-06T07:08:09Z">'
    assert dates_of(same_day, url)[0] == "2024-05-06T07:08:09+00:00"
    next_day = '<meta property="article:published_time" content="2024-05-07T03:08:09Z">'
    assert dates_of(next_day, url) == ("2024-05-06", "url")


@pytest.mark.parametrize(
    ("other", "published", "source"),
    [
        ("", "2024-05-07T03:08:09+00:00", "meta:article:published_time"),
        (
            '<h1>Budget</h1><time datetime="2024-05-06T23:08:09-04:00">May 6</time>',
            "2024-05-06T23:08:09-04:00",
            "time",
        ),
        (
            '<meta name="sailthru.date" content="2024-05-06 23:08:09">',
            "2024-05-06T23:08:09",
            "meta:sailthru.date",
        ),
        ("<h1>Budget</h1><p>May 6, 2024</p>", "2024-05-06", "headline"),
        (
            "<h1>Budget</h1><p>May 2, 2024</p>",
            "2024-05-07T03:08:09+00:00",
            "meta:article:published_time",
        ),
    ],
)
def test_utc_times_are_moved_to_the_time_zone_of_the_page(
    other: str, published: str, source: str
) -> None:
    declared = '<meta property="article:published_time" content="2024-05-07T03:08:09Z">'
    assert dates_of(declared + other) == (published, source)


@pytest.mark.parametrize(
    ("language", "byline"),
    [
        ("en", "<p>By Ann &bull; Published May 6, 2024</p>"),
        ("en", "<p>Posted <span>6</span> <span>May</span> <span>2024</span></p>"),
        ("de", "<p>Von Ann, 6. Mai 2024, 10:00 Uhr</p>"),
        ("fr", "<p>Publié le 6 mai 2024 à 10h00, mis à jour le 7 mai 2024</p>"),
        ("fr", "<p>Mis à jour le 7 mai 2024, publié le 6 mai 2024</p>"),
        ("es", "<p>6 de mayo de 2024</p>"),
        ("it", "<p>Aggiornato il 8 maggio 2024</p><p>6 maggio 2024</p>"),
        ("pt", "<p>06/05/2024 10h00</p>"),
        ("nl", "<p>maandag 6 mei 2024</p>"),
        ("pl", "<p>6 maja 2024</p>"),
        ("tr", "<p>6 May\u0131s 2024</p>"),
        ("ru", "<p>6 мая 2024, 10:00</p>"),
        ("sv", "<p>Publicerad 6 maj 2024</p>"),
        ("ja", "<p>2024年5月6日 10:00</p>"),
        ("zh", "<p>2024-05-06 10:00</p>"),
        ("de", "<p>BERLIN, 6. Mai 2024 \u2013 " + "Der Rat hat lange beraten. " * 10),
        ("en", '<time datetime="2024-05-06">Monday</time>'),
        ("en", "<time datetime='2024-05-09T10:00:00Z'>Published on 6 May 2024</time>"),
        ("en", "<time>6 May 2024</time>"),
    ],
)
def test_dates_beside_the_headline(language: str, byline: str) -> None:
    found = dates_of(article(byline, language=language))
    assert found[0][:10] == "2024-05-06"
    assert found[1] == "headline"


def test_the_headline_is_the_heading_in_the_title() -> None:
    page = article("<p>6 May 2024</p>", before="<h1>Daily</h1><p>2 January 2026</p>")
    assert dates_of(page) == ("2024-05-06", "headline")
    kicker = article("<p>By Ann</p>", before="<p>Politics</p><p>6 May 2024</p>")
    assert dates_of(kicker) == ("2024-05-06", "headline")


def test_dates_of_events_comments_and_notices_are_not_the_publication() -> None:
    prose = "<p>" + "On 3 March 2020 the council met, as it had done " * 5 + "</p>"
    assert dates_of(article(prose + "<p>6 May 2024</p>"))[0] == "2024-05-06"
    footer = "<footer>Copyright 1 January 2020 Daily</footer>"
    assert dates_of(article("", after=footer)) == (None, None)
    assert dates_of(article("", after="<p>&copy; 2020 Daily</p>")) == (None, None)
    script = "<script>var built = '2020-01-01'</script>"
    assert dates_of(article(script)) == (None, None)


@pytest.mark.parametrize(
    ("language", "host", "published"),
    [
        ("en-US", "site.com", "2024-03-04"),
        ("en", "site.com", "2024-03-04"),
        ("en-GB", "site.com", "2024-04-03"),
        ("en", "site.co.uk", "2024-04-03"),
        ("en-US", "site.com.au", "2024-04-03"),
        ("fr", "site.com", "2024-04-03"),
        ("", "site.fr", "2024-04-03"),
        ("", "site.com", "2024-03-04"),
    ],
)
def test_language_and_domain_decide_on_the_order(language: str, host: str, published: str) -> None:
    page = article("<p>03/04/2024</p>", language=language)
    assert dates_of(page, f"http://{host}/page") == (published, "headline")


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ('<p class="post-date">6 May 2024</p>', "element"),
        ('<span itemprop="datePublished" content="2024-05-06">today</span> 6 May 2024', "element"),
        ("<p>First line</p><p>Since 6 May 2024</p>", "text"),
        ('<time pubdate datetime="2024-05-06">x</time>', "time"),
        ('<time datetime="2020-01-01"></time><time class="published">6 May 2024</time>', "time"),
        (
            '<time itemprop="datePublished" datetime="2024-05-06">x</time>',
            "microdata:datePublished",
        ),
    ],
)
def test_pages_without_a_headline(body: str, source: str) -> None:
    assert dates_of(f"<html lang=en><body>{body}{PROSE}") == ("2024-05-06", source)


@pytest.mark.parametrize(
    ("page", "modified", "source"),
    [
        ("<p>x", None, None),
        (json_ld('"dateModified": "2024-05-07T10:00:00Z"'), "2024-05-07T10:00:00+00:00", "json_ld"),
        ('<meta property="og:updated_time" content="2024-05-07">', "2024-05-07", "meta"),
        (article("<p>6 May 2024, updated: 7 May 2024</p>"), "2024-05-07", "headline"),
        (
            article("<p>Zuletzt aktualisiert am 7. Mai 2024</p>", language="de"),
            "2024-05-07",
            "headline",
        ),
        (article("<p>6 May 2024</p>"), None, None),
    ],
)
def test_modified_date_comes_from_declarations_or_the_headline(
    page: str, modified: str | None, source: str | None
) -> None:
    found = scrape(page_source(page), WHOLE_PAGE).metadata
    assert found["modified"] == modified
    assert found["sources"].get("modified", ":").partition(":")[0] == (source or "")


def test_main_content_and_other_documents() -> None:
    body = article("<p>6 May 2024</p>")
    assert scrape(page_source(body), ConversionOptions()).metadata["published"] == "2024-05-06"
    text = page_source("Budget\n\n6 May 2024", content_type="text/plain")
    assert scrape(text, ConversionOptions()).metadata["published"] is None
    bare = ConversionOptions(facts=frozenset({"quality"}))
    assert scrape(page_source(body), bare).metadata == {}


HOSTILE = {
    "paragraphs": "<p>1 January 2020 @</p>",
    "impossible dates": "<p>41 January 2020 @</p>",
    "one text": "32.13.2020 ",
    "times": '<time datetime="2020-99-01" itemprop="datePublished" class="published">2020</time>',
    "nested times": '<time datetime="x">',
    "nested headings": "<div><h1>",
    "date elements": '<p class="date">2020 32.1.2020',
}


async def test_hostile_pages_stay_within_worker_limits() -> None:
    sources = {
        name: page_source("<h1>Budget raised</h1>" + unit * 20_000 + "<h1>x</h1>")
        for name, unit in HOSTILE.items()
    }
    await scrape_in_worker(sources, ConversionOptions(formats=("raw_html",)))
