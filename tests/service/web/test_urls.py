from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import (
    MAX_URL_CHARS,
    UrlJoiner,
    canonical_url,
    host_and_port,
    join_url,
    split_url,
    url_origin,
)

UNDECODABLE_PUNYCODE = {
    # The standard now lets these through; no registry can hold them and no server answers there.
    "http://a.b.c.xn--pokxncvks",
    "http://10.0.0.xn--pokxncvks",
    "http://a.b.c.XN--pokxncvks",
    "http://a.b.c.Xn--pokxncvks",
    "http://10.0.0.XN--pokxncvks",
    "http://10.0.0.xN--pokxncvks",
    "https://xn--/",
}


def expected(case: dict[str, Any]) -> str | None:
    href = "" if case.get("failure") else case["href"]
    return href.partition("#")[0] if href.startswith(("http://", "https://")) else None


def canonical_or_none(url: str) -> str | None:
    try:
        return canonical_url(url)
    except FetchError:
        return None


def test_whatwg_cases(corpora: Path) -> None:
    cases = [
        case
        for case in json.loads((corpora / "url" / "urltestdata.json").read_text())
        if isinstance(case, dict)
    ]
    assert len(cases) == 891
    for case in cases:
        text, base = case["input"], case.get("base")
        if text in UNDECODABLE_PUNYCODE:
            assert canonical_or_none(text) is None
        elif base is None:
            assert canonical_or_none(text) == expected(case), case
        elif canonical_or_none(base) is not None and not text.startswith("#"):
            assert join_url(base, text) == expected(case), case


def test_resolving_cases(corpora: Path) -> None:
    lines = (corpora / "crawler-commons/url-utils/url-resolve.csv").read_text().splitlines()
    checked = 0
    for line in lines:
        if not line or line.startswith("#"):
            continue
        href, base, resolved = (field.strip().strip('"') for field in line.split(", "))
        checked += 1
        if not resolved.startswith("http"):
            assert canonical_or_none(resolved) is None, line  # file: is no scheme of ours
        elif href.startswith("#"):
            assert join_url(base, href) is None, line
        else:
            got = join_url(base, href) if base.startswith("http") else canonical_url(href)
            assert got == canonical_url(resolved), line
    assert checked == 22


@pytest.mark.parametrize(
    ("spelling", "meant"),
    [
        ("HTTP://Example.COM:80/a/../b?q=1#part", "http://example.com/b?q=1"),
        ("  https://example.com\t ", "https://example.com/"),
        ("http:\\\\evil.test\\x", "http://evil.test/x"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://127.0.0.1:80\\@example.com/", "http://127.0.0.1/@example.com/"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://example.com/a^b?c^d", "http://example.com/a%5Eb?c^d"),
        ("http://example.com./", "http://example.com./"),
    ],
)
def test_canonical_form(spelling: str, meant: str) -> None:
    assert canonical_url(spelling) == meant
    assert canonical_url(meant) == meant


@pytest.mark.parametrize(
    "text",
    [
        "example.com/page",
        "ftp://example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://[::1/",
        "http://\ud800/",
        "",
        "https://example.com/" + "a" * MAX_URL_CHARS,
    ],
)
def test_error_for_invalid_address_states_what_is_allowed(text: str) -> None:
    with pytest.raises(FetchError, match=r"Give an http:// or https:// URL with a host") as caught:
        canonical_url(text)
    assert caught.value.kind == "bad_url"


def test_error_does_not_contain_password() -> None:
    with pytest.raises(FetchError) as caught:
        canonical_url("http://ann:secret@exa mple.com/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("href", "leads_to"),
    [
        ("../c", "http://example.com/c"),
        ("?q=1", "http://example.com/a/b?q=1"),
        ("//other.test/x", "http://other.test/x"),
        ("///other.test/x", "http://other.test/x"),
        ("/\\//other.test/x", "http://other.test/x"),
        ("d#part", "http://example.com/a/d"),
        ("  d  ", "http://example.com/a/d"),
        ("", "http://example.com/a/b"),
        ("#part", None),
        ("javascript:void(0)", None),
        ("JavaScript:void(0)", None),
        ("mailto:ann@example.com", None),
        ("data:text/html,hello", None),
        ("tel:+123", None),
        ("http://[", None),
        ("//", None),
        ("///", None),
        ("/\ud800", None),
        ("/" + "a" * MAX_URL_CHARS, None),
    ],
)
def test_join(href: str, leads_to: str | None) -> None:
    assert UrlJoiner("http://example.com/a/b#old").join(href) == leads_to


def test_invalid_base_fails() -> None:
    with pytest.raises(FetchError, match="scheme 'data'"):
        UrlJoiner("data:text/html,x")


@pytest.mark.parametrize(
    ("url", "its_origin", "its_server"),
    [
        ("https://example.com/a", "https://example.com", "example.com:443"),
        ("HTTP://Example.com:80/", "http://example.com", "example.com:80"),
        ("http://example.com:443/", "http://example.com:443", "example.com:443"),
        ("http://[::1]:8080/", "http://[::1]:8080", "[::1]:8080"),
        ("https://[2001:DB8::1]/", "https://[2001:db8::1]", "[2001:db8::1]:443"),
    ],
)
def test_origin_and_server(url: str, its_origin: str, its_server: str) -> None:
    assert (url_origin(url), host_and_port(url)) == (its_origin, its_server)


def test_parts() -> None:
    taken = split_url("https://ann:pw@example.com/a%20b?x=1")
    assert (taken.scheme, taken.host, taken.port) == ("https", "example.com", 443)
    assert (taken.path, taken.query, taken.has_credentials) == ("/a%20b", "x=1", True)
    assert taken.explicit_port is None


@pytest.mark.parametrize("text", ["ftp://example.com/", "nothing", "http://"])
def test_split_of_invalid_address_fails(text: str) -> None:
    with pytest.raises(FetchError):
        split_url(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.com/caf%c3%a9", "http://example.com/caf%C3%A9"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com/?x=%2f", "HTTP://EXAMPLE.COM:80/?x=%2F#y"),
    ],
)
def test_forms_of_one_url_share_a_key(one: str, other: str) -> None:
    assert canonical_key(canonical_url(one)) == canonical_key(canonical_url(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.com/?a=1&b=2", "http://example.com/?b=2&a=1"),
        ("http://example.com/a", "http://example.com/a/"),
        ("http://example.com/", "http://example.com/index.html"),
        ("http://example.com/", "https://example.com/"),
        ("http://example.com/%41", "http://example.com/A"),
        ("http://example.com/A", "http://example.com/a"),
    ],
)
def test_possibly_different_pages_have_different_keys(one: str, other: str) -> None:
    assert canonical_key(canonical_url(one)) != canonical_key(canonical_url(other))
