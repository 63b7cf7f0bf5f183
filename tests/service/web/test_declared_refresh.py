"""Redirects that pages declare are followed as browsers do, within bounds."""

from __future__ import annotations

import pytest

from tests.service.web.wire import WireServer
from webdata_nb.page.content.page_source import Redirect
from webdata_nb.page.declared_refresh import parse_refresh, refresh_target
from webdata_nb.service.web.fetch import Fetcher, FetchRequest

PAGE = "http://site.test/dir/page"


@pytest.mark.parametrize(
    ("value", "delay_and_url"),
    [
        ("0; url=/t", (0, "/t")),
        ("0;URL='/t'rest", (0, "/t")),
        ('5, url = "/t" ', (5, "/t")),
        ("1.9 /t", (1, "/t")),
        (".5;url=/t", (0, "/t")),
        ("0; URL=\n/t\t2", (0, "/t2")),
        ("3;/t?url=x", (3, "/t?url=x")),
        ("30", None),
        ("30;", None),
        ("0;url=", None),
        ("url=/t", None),
        ("-1;url=/t", None),
        ("", None),
    ],
)
def test_values(value: str, delay_and_url: tuple[int, str] | None) -> None:
    refresh = parse_refresh(value)
    assert (None if refresh is None else (refresh.delay_s, refresh.url)) == delay_and_url


def meta(content: str) -> str:
    return f'<meta http-equiv="refresh" content="{content}">'


@pytest.mark.parametrize(
    ("body", "header", "target"),
    [
        (meta("0;url=t"), None, "http://site.test/dir/t"),
        ("<META content='5;url=/t' HTTP-EQUIV = Refresh>", None, "http://site.test/t"),
        ('<base href="/other/">' + meta("0;url=t"), None, "http://site.test/other/t"),
        ("text", "0; url=/h", "http://site.test/h"),
        (meta("0;url=/t"), "0; url=/h", "http://site.test/h"),
        (meta("6;url=/t"), None, None),
        (meta("0;url=#part"), None, None),
        (meta("0;url=javascript:alert(1)"), None, None),
        (f"<!-- {meta('0;url=/t')} -->", None, None),
        (f"<script>'{meta('0;url=/t')}'</script>", None, None),
        (f"<pre>{meta('0;url=/t').replace('<', '&lt;')}</pre>", None, None),
        (meta("60") + meta("0;url=/t"), None, "http://site.test/t"),
        (f"<noscript>{meta('0;url=/t')}</noscript>", None, "http://site.test/t"),
        (f"<noscript>{meta('0;url=/t')}</noscript><p>a text", None, None),
        (
            f"<script>x</script><noscript>Go!{meta('0;url=/t')}</noscript>",
            None,
            "http://site.test/t",
        ),
        (" " * 70_000 + meta("0;url=/t"), None, None),
    ],
)
def test_targets(body: str, header: str | None, target: str | None) -> None:
    assert refresh_target(PAGE, header, body.encode()) == target


async def test_short_refresh_is_a_redirect(server: WireServer, fetcher: Fetcher) -> None:
    start = server.page("/", meta("2;url=/middle").encode())
    server.page("/middle", b"x", "Refresh: 0;url=/end")
    server.page("/end", b"here")
    fetched = await fetcher.fetch(FetchRequest(start))
    assert (fetched.final_url, fetched.body) == (server.url("/end"), b"here")
    assert fetched.redirects == (Redirect(start, 200), Redirect(server.url("/middle"), 200))


async def test_refreshes_in_a_circle_end_at_a_page(server: WireServer, fetcher: Fetcher) -> None:
    start = server.page("/a", b"A" + meta("0;url=/b").encode())
    server.page("/b", b"B" + meta("3;url=/a").encode())
    fetched = await fetcher.fetch(FetchRequest(start))
    assert (fetched.final_url, fetched.status) == (server.url("/b"), 200)
    assert fetched.body.startswith(b"B")
    assert server.paths() == ["/a", "/b"]


async def test_a_long_chain_ends_at_the_limit(server: WireServer, fetcher: Fetcher) -> None:
    for number in range(20):
        server.page(f"/{number}", meta(f"0;url=/{number + 1}").encode())
    fetched = await fetcher.fetch(FetchRequest(server.url("/0")))
    assert len(fetched.redirects) == 10
    assert fetched.status == 200


async def test_a_refused_target_stops_there(server: WireServer, fetcher: Fetcher) -> None:
    async def allow_hop(url: str) -> str | None:
        return "robots" if url.endswith("/t") else None

    start = server.page("/", meta("0;url=/t").encode())
    fetched = await fetcher.fetch(FetchRequest(start, allow_hop=allow_hop))
    assert (fetched.stopped, fetched.final_url) == ("robots", server.url("/t"))
    assert server.paths() == ["/"]


async def test_errors_and_other_requests_do_not_refresh(
    server: WireServer, fetcher: Fetcher
) -> None:
    start = server.page("/", meta("0;url=/t").encode(), status="404 Not Found")
    assert (await fetcher.fetch(FetchRequest(start))).redirects == ()
    start = server.page("/robots.txt", meta("0;url=/t").encode())
    assert (await fetcher.fetch(FetchRequest(start, accept="text/plain"))).redirects == ()
