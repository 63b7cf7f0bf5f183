"""A label in the content of a page outweighs what the document declares of itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.extract.product_pages import extract_page

FIELDS = {"language": str, "author": str, "published": str, "price": float}
SHOWN = {
    "language": "Estonian",
    "author": "A. H. Tammsaare",
    "published": "3 May 1926",
    "price": 25,
}
DECLARED = {
    "language": "en-US",
    "author": "admin",
    "published": "2024-05-01T00:00:00Z",
    "price": 20,
}
HEAD = (
    '<meta name="author" content="admin"><meta property="og:locale" content="en_US">'
    '<meta property="article:published_time" content="2024-05-01T00:00:00Z">'
    '<meta property="og:price:amount" content="20">'
    '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "WebPage",'
    ' "name": "Truth and Justice", "inLanguage": "en-US"}</script>'
)
LINES = [
    ("Language", "Estonian"),
    ("Author", "A. H. Tammsaare"),
    ("Published", "3 May 1926"),
    ("Price", "25 EUR"),
]


def page(body: str, *, head: str = HEAD) -> str:
    return (
        f'<html lang="en"><head><title>Truth and Justice</title>{head}</head><body>'
        '<header class="site"><nav>Language: Klingon</nav><p>Author: the web master</p></header>'
        f"<main><h1>Truth and Justice</h1>{body}<p>The novel is long, and told in five parts.</p>"
        "</main><footer><p>Published: 1 January 2020</p></footer></body></html>"
    )


def each(form: str) -> str:
    return "".join(form.format(label=label, value=value) for label, value in LINES)


@pytest.mark.parametrize(
    "body",
    [
        each("<p>{label}: {value}</p>"),
        each("<p><b>{label}:</b> {value}</p>"),
        each("<p><strong>{label}</strong>: {value}</p>"),
        each("<li>{label} : <a href='/x'>{value}</a></li>"),
        each("<div><span>{label}:</span><span>{value}</span></div>"),
        each("<div><div>{label}:</div><div>{value}</div></div>"),
        each("<span>{label}: {value}</span> "),
        each("<span><i>{label}:</i> {value}</span> "),
        "<p>" + each("{label}: {value}<br>") + "</p>",
        "<p>" + each("{label}: {value} | ").removesuffix(" | ") + "</p>",
        "<p>" + each("<b>{label}:</b> {value} · ").removesuffix(" · ") + "</p>",
        "<p>" + each("{label}\uff1a{value}<br>") + "</p>",
        each("<li><b>{label} \u200f : \u200e </b> <span>{value}</span></li>"),
        "<dl>" + each("<dt>{label}<dd>{value}") + "</dl>",
        "<table>" + each("<tr><th>{label}<td>{value}") + "</table>",
        "<table>" + each("<tr><td>{label}:<td>{value}") + "</table>",
        "<table><tr><td>" + each("<p>{label}: {value}</p>") + "</table>",
    ],
)
def test_labels_in_the_content_win(body: str) -> None:
    found = extract_page(page(body), FIELDS)
    assert found.data == SHOWN
    labels = {name: at.rpartition("/")[2] for name, at in found.provenance.items()}
    assert labels == {f"/{label.lower()}": label for label, _ in LINES}
    assert all(at.startswith(("visible:label/", "table:1/")) for at in found.provenance.values())


@pytest.mark.parametrize(
    "body",
    [
        "",
        each("<nav><p>{label}: {value}</p></nav>"),
        each("<aside><p>{label}: {value}</p></aside>"),
        each("<form><p>{label}: {value}</p></form>"),
        each("<label>{label}: {value}</label>"),
        each('<p hidden="">{label}: {value}</p>'),
        each("<p><a href='/x'>{label}: {value}</a></p>"),
        each("<h3>{label}: {value}</h3>"),
        each('<div class="comment-list"><p>{label}: {value}</p></div>'),
        each('<div class="language-switcher">{label}: {value}</div>'),
        # Prose, and labels of parts of the page.
        each("<p>Of the {label}: {value}</p>"),
        each(
            "<p>{label}: this is a long story, of which the shop will tell you much more soon</p>"
        ),
        each("<li>{label}: it is of course a matter of taste.</li>"),
        each("<p>{label}: {value}</p><p>{label}: another</p>"),
        "<table>" + each("<tr><td>{label}<td>{value}") + each("<tr><td>{label}<td>?") + "</table>",
    ],
)
def test_what_is_no_label_of_the_page_does_not_win(body: str) -> None:
    assert extract_page(page(body), FIELDS).data == DECLARED


def test_a_crossed_out_price_is_no_value() -> None:
    body = "<p>Price: <del>30 EUR</del> 25 EUR</p>"
    assert extract_page(page(body), FIELDS).data["price"] == 25


@pytest.mark.parametrize("format_", ["date", "date-time"])
def test_a_date_is_read_in_the_form_that_the_schema_wants(format_: str) -> None:
    schema: dict[str, Any] = {"published": {"type": "string", "format": format_}}
    shown = '<p>Published: <time datetime="1926-05-03T10:00:00Z">3 May 1926</time></p>'
    expected = {"date": "1926-05-03", "date-time": "1926-05-03T10:00:00+00:00"}
    assert extract_page(page(shown), schema).data["published"] == expected[format_]
    # A label whose text is no such date leaves it to the document.
    vague = "<p>Published: in spring</p>"
    declared = {"date": "2024-05-01", "date-time": "2024-05-01T00:00:00+00:00"}
    assert extract_page(page(vague), schema).data["published"] == declared[format_]


def test_a_shown_day_leaves_the_declared_time() -> None:
    shown = "<p>Published: 1 May 2024</p>"
    assert extract_page(page(shown), FIELDS).data == DECLARED


def test_the_data_of_the_thing_itself_wins() -> None:
    book = '{"@context": "https://schema.org", "@type": "Book", "inLanguage": "et", "name": "Tõde"}'
    head = f'{HEAD}<script type="application/ld+json">{book}</script>'
    found = extract_page(page(each("<p>{label}: {value}</p>"), head=head), FIELDS)
    assert found.data == SHOWN | {"language": "et"}


def test_names_that_everything_has_are_not_read_from_labels() -> None:
    body = "<p>Title: Dr.</p><p>Name: your name</p><p>Description: see below</p>"
    fields = {"title": str, "description": str}
    head = '<meta name="description" content="A novel">'
    found = extract_page(page(body, head=head), fields)
    assert found.data == {"title": "Truth and Justice", "description": "A novel"}


def test_a_list_keeps_what_is_declared() -> None:
    head = '<meta name="keywords" content="novel, Estonia">'
    found = extract_page(page("<p>Keywords: novels</p>", head=head), {"keywords": [str]})
    assert found.data["keywords"] == ["novel", "Estonia"]
