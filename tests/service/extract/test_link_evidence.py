"""URLs that a page has only as the targets of its links and images."""

from __future__ import annotations

from typing import Any, Final

import pytest

from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.results import ValueEvidence

URL: Final = "https://shop.example/p/pot.html"
HEADING: Final = "<h1>Tea pot Omega</h1><p>A pot for four cups of tea.</p>"


def evidence_of(page: str, name: str, value: Any, *, url: str = URL) -> ValueEvidence:
    found = find_evidence(page, {"name": "Tea pot Omega", name: value}, url=url)
    return next(each for each in found if each.pointer == f"/{name}")


@pytest.mark.parametrize(
    ("markup", "name", "value", "verdict", "quote"),
    [
        ('<a href="https://shop.example/m.pdf">manual</a>', "manual", None, "verbatim", None),
        (
            "<a href='/m.pdf'>manual</a>",
            "manual",
            "https://shop.example/m.pdf",
            "derived",
            "/m.pdf",
        ),
        ("<a href=../m.pdf>x</a>", "file", "https://shop.example/m.pdf", "derived", "../m.pdf"),
        ("<a href='?a=1&amp;b=2'>x</a>", "link", f"{URL}?a=1&b=2", "derived", "?a=1&amp;b=2"),
        ("<a href='/caf%c3%a9'>x</a>", "link", "https://shop.example/café", "derived", None),
        ("<a href='pot.html#size'>x</a>", "url", URL, "derived", "pot.html#size"),
        ("<link rel=canonical href=/pot>", "url", "https://shop.example/pot", "derived", "/pot"),
        (
            "<img src=i/a.jpg alt='a pot'>",
            "image",
            "https://shop.example/p/i/a.jpg",
            "derived",
            None,
        ),
        (
            "<img src='data:image/gif;base64,R0' data-src='/i/a.webp'>",
            "photo",
            "https://shop.example/i/a.webp",
            "derived",
            "/i/a.webp",
        ),
        (
            "<picture><source srcset='/i/a.jpg 1x, /i/b.jpg 2x'><img src=/i/c.jpg></picture>",
            "imageUrl",
            "https://shop.example/i/b.jpg",
            "derived",
            "/i/b.jpg",
        ),
        (
            "<a href=/i/big.jpg><img src=/i/s.jpg></a>",
            "image",
            "/i/big.jpg",
            "verbatim",
            "/i/big.jpg",
        ),
        ("<video poster=/i/v.jpg src=/v.mp4></video>", "video", "/v.mp4", "verbatim", "/v.mp4"),
        ("<video><source src=/v.mp4></video>", "video_url", "/v.mp4", "verbatim", "/v.mp4"),
        ("<audio src=/a.mp3></audio>", "url", "/a.mp3", "verbatim", "/a.mp3"),
        (
            "<picture><source srcset='/p.webp 2x'></picture>",
            "image",
            "/p.webp",
            "verbatim",
            "/p.webp",
        ),
    ],
)
def test_targets_support_urls(
    markup: str, name: str, value: str | None, verdict: str, quote: str | None
) -> None:
    claimed = value or "https://shop.example/m.pdf"
    page = HEADING + markup
    found = evidence_of(page, name, claimed)
    assert found.verdict == verdict, found
    assert found.start is not None
    assert page[found.start : found.end] == found.quote
    assert quote is None or found.quote == quote


def test_targets_are_resolved_against_the_base_element() -> None:
    page = f"<base href='https://cdn.example/x/'>{HEADING}<a href=m.pdf>manual</a>"
    assert evidence_of(page, "manual", "https://cdn.example/x/m.pdf").verdict == "derived"
    assert evidence_of(page, "manual", "https://shop.example/p/m.pdf").verdict == "unsupported"


@pytest.mark.parametrize(
    ("markup", "name", "value", "reason"),
    [
        (
            "<a href=/m.pdf>x</a>",
            "url",
            "https://shop.example/m2.pdf",
            "the page does not contain it",
        ),
        (
            "<a href=/m.pdf>x</a>",
            "url",
            "https://other.example/m.pdf",
            "the page does not contain it",
        ),
        ("<!-- <a href=/m.pdf>x</a> -->", "url", "https://shop.example/m.pdf", "the page does not"),
        (
            "<script>'<a href=/m.pdf>'</script>",
            "url",
            "https://shop.example/m.pdf",
            "the page does",
        ),
        ("<img src=/i/a>", "url", "https://shop.example/i/a", "the page gives it as an image"),
        (
            "<video><source src=/v.mp4></video>",
            "image",
            "/v.mp4",
            "the page gives it as a media file",
        ),
        (
            "<a href=/care>x</a>",
            "image",
            "https://shop.example/care",
            "the page gives it as a link",
        ),
        ("<a href='mailto:a@b.example'>x</a>", "url", "//a@b.example", "the page does not contain"),
    ],
)
def test_other_urls_are_unsupported(markup: str, name: str, value: str, reason: str) -> None:
    found = evidence_of(HEADING + markup, name, value)
    assert found.verdict == "unsupported"
    assert found.reason.startswith(reason)


def test_each_entry_of_a_list_has_the_links_of_its_own_card() -> None:
    names = ["Kettle Alpha", "Kettle Beta", "Kettle Gamma", "Kettle Delta"]
    cards = "".join(
        f"<li class=card><a href=/k/{n}><img src=/i/{n}.jpg></a><h3>{name}</h3>"
        f"<p>{n + 10} EUR</p></li>"
        for n, name in enumerate(names)
    )
    page = f"<h1>Kettles</h1><ul>{cards}</ul>"
    entries = [
        {"name": name, "url": f"https://shop.example/k/{n}", "image": f"/i/{n}.jpg"}
        for n, name in enumerate(names)
    ]
    found = find_evidence(page, {"items": entries}, url=URL)
    assert {each.verdict for each in found} <= {"verbatim", "derived"}, found
    entries[1]["url"], entries[2]["url"] = entries[2]["url"], entries[1]["url"]
    entries[0]["image"], entries[3]["image"] = entries[3]["image"], entries[0]["image"]
    found = find_evidence(page, {"items": entries}, url=URL)
    wrong = {each.pointer for each in found if each.verdict == "unsupported"}
    assert wrong == {"/items/1/url", "/items/2/url", "/items/0/image", "/items/3/image"}


def test_a_card_of_another_product_supports_no_url_of_the_page() -> None:
    others = "".join(
        f"<div class=card><a href=/p/{n}><img src=/i/{n}.jpg></a><h3>Pot {n}</h3>"
        f"<p>{n} EUR</p></div>"
        for n in range(4)
    )
    page = f"{HEADING}<a href=/p/omega>this pot</a><h2>You may also like</h2><div>{others}</div>"
    assert evidence_of(page, "url", "https://shop.example/p/omega").verdict == "derived"
    other = evidence_of(page, "url", "https://shop.example/p/2")
    assert other.verdict == "unsupported"
    assert other.reason == "the page gives it for another record"


def test_a_page_of_many_links_takes_linear_time() -> None:
    links = "".join(f"<a href='/p/{number}'>p</a>" for number in range(15_000))
    page = HEADING + links
    found = evidence_of(page, "url", "https://shop.example/p/14999")
    assert found.verdict == "derived"
