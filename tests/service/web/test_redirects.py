from __future__ import annotations

import pytest

from tests.service.web.wire import WireServer, page
from webdata_nb.page.content.page_source import FetchedResponse, Redirect
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.fetch import Fetcher, FetchLimits, FetchRequest

SECRETS = {"x-token", "authorization", "cookie"}


async def failure(fetcher: Fetcher, request: FetchRequest) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(request)
    return caught.value


def secretive(url: str) -> FetchRequest:
    """A request with everything that must not leave its origin."""
    headers = {"X-Token": "t", "Authorization": "Bearer b"}
    return FetchRequest(url, headers=headers, cookies={"session": "s"})


def secrets_sent(server: WireServer) -> list[set[str]]:
    return [SECRETS & one.headers.keys() for one in server.requests]


@pytest.mark.parametrize("status", ["301 A", "302 B", "303 C", "307 D", "308 E"])
async def test_redirects_are_followed(server: WireServer, fetcher: Fetcher, status: str) -> None:
    start = server.redirect("/a", "b?x=1#part", status=status)
    server.redirect("/b", "/c/d", status=status)
    server.page("/c/d", b"here")
    fetched = await fetcher.fetch(FetchRequest(start))
    assert (fetched.url, fetched.final_url) == (start, server.url("/c/d"))
    assert (fetched.status, fetched.body) == (200, b"here")
    code = int(status[:3])
    assert fetched.redirects == (Redirect(start, code), Redirect(server.url("/b?x=1"), code))


@pytest.mark.parametrize("status", ["300 Choose", "304 Same", "201 Made"])
async def test_location_counts_only_in_redirects(
    server: WireServer, fetcher: Fetcher, status: str
) -> None:
    fetched = await fetcher.fetch(FetchRequest(server.redirect("/", "/b", status=status)))
    assert (fetched.status, fetched.redirects) == (int(status[:3]), ())


async def test_redirect_without_location_is_a_result(server: WireServer, fetcher: Fetcher) -> None:
    fetched = await fetcher.fetch(FetchRequest(server.page("/", b"moved", status="302 Found")))
    assert (fetched.status, fetched.body) == (302, b"moved")


async def test_redirects_are_not_followed_on_request(server: WireServer, fetcher: Fetcher) -> None:
    request = FetchRequest(server.redirect("/", "/b"), follow_redirects=False)
    fetched = await fetcher.fetch(request)
    assert (fetched.status, fetched.header("location")) == (302, "/b")
    assert server.paths() == ["/"]


@pytest.mark.parametrize(
    ("location", "requested_path"),
    [
        ("/caf\u00e9".encode(), "/caf%C3%A9"),
        (b"/caf\xe9", "/caf%E9"),
        (b"\\b", "/b"),
        (b"/a b", "/a%20b"),
    ],
)
async def test_unusual_locations(
    server: WireServer, fetcher: Fetcher, location: bytes, requested_path: str
) -> None:
    server.answers["/"] = (
        b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    )
    await fetcher.fetch(FetchRequest(server.url()))
    assert server.paths() == ["/", requested_path]


@pytest.mark.parametrize("location", ["mailto:a@b.test", "ftp://b.test/", "http://", "file:///x"])
async def test_redirect_to_other_scheme_fails(
    server: WireServer, fetcher: Fetcher, location: str
) -> None:
    error = await failure(fetcher, FetchRequest(server.redirect("/", location)))
    assert error.kind == "bad_url"
    assert repr(location) in str(error)


async def test_redirect_loop_fails(server: WireServer, fetcher: Fetcher) -> None:
    server.redirect("/a", "/b")
    error = await failure(fetcher, FetchRequest(server.redirect("/b", "/a#again")))
    assert (error.kind, "in a circle" in str(error)) == ("redirects", True)
    assert server.paths() == ["/b", "/a"]


async def test_too_many_redirects_fail(server: WireServer, fetcher: Fetcher) -> None:
    for n in range(20):
        server.redirect(f"/{n}", f"/{n + 1}")
    request = FetchRequest(server.url("/0"), limits=FetchLimits(redirects=3))
    error = await failure(fetcher, request)
    assert (error.kind, "more than 3 times" in str(error)) == ("redirects", True)
    assert len(server.requests) == 4
    server.page("/3", b"last")
    assert (await fetcher.fetch(request)).body == b"last"


async def test_allow_hop_is_called_before_request(server: WireServer, fetcher: Fetcher) -> None:
    targets: list[tuple[str, int]] = []

    async def note(url: str) -> str | None:
        targets.append((url, len(server.requests)))
        return None

    start = server.redirect("/a", "/b")
    server.redirect("/b", "/c")
    await fetcher.fetch(FetchRequest(start, allow_hop=note))
    assert targets == [(server.url("/b"), 1), (server.url("/c"), 2)]


async def test_disallowed_hop_stops_fetch(server: WireServer, fetcher: Fetcher) -> None:
    async def refuse_c(url: str) -> str | None:
        return "robots" if url.endswith("/c") else None

    start = server.redirect("/a", "/b")
    server.redirect("/b", "/c", "X-Left: yes")
    fetched = await fetcher.fetch(FetchRequest(start, allow_hop=refuse_c))
    assert (fetched.stopped, fetched.body, fetched.status) == ("robots", b"", 302)
    assert fetched.final_url == server.url("/c")
    assert [hop.url for hop in fetched.redirects] == [start, server.url("/b")]
    assert fetched.header("x-left") == "yes"
    assert server.paths() == ["/a", "/b"]


async def test_credentials_stay_with_their_origin(server: WireServer, fetcher: Fetcher) -> None:
    start = server.redirect("/a", "/b")
    server.page("/b", b"x")
    await fetcher.fetch(secretive(start))
    assert secrets_sent(server) == [SECRETS, SECRETS]


async def test_credentials_are_dropped_after_another_host(
    server: WireServer, fetcher: Fetcher
) -> None:
    start = server.redirect("/a", server.url("/b", host="localhost"))
    server.redirect("/b", server.url("/c"))
    server.page("/c", b"home again")
    await fetcher.fetch(secretive(start))
    assert secrets_sent(server) == [SECRETS, set(), set()]


async def test_credentials_are_not_sent_to_another_port(
    server: WireServer, fetcher: Fetcher
) -> None:
    async with WireServer() as other:
        start = server.redirect("/a", other.page("/b", b"x"))
        await fetcher.fetch(secretive(start))
        assert secrets_sent(other) == [set()]
        assert other.last.headers["user-agent"] == "webdata-tests/1.0"


async def test_cookie_of_a_hop_is_returned_to_its_host(
    server: WireServer, fetcher: Fetcher
) -> None:
    """A page behind a cookie wall: it sets a cookie and sends the visitor to the same URL."""
    wall = page(b"", "Location: /", "Set-Cookie: seen=yes; Path=/", status="302 Found")
    server.answers["/"] = [wall, page(b"welcome")]
    fetched = await fetcher.fetch(FetchRequest(server.url(), cookies={"own": "1"}))
    assert fetched.body == b"welcome"
    assert [one.headers.get("cookie") for one in server.requests] == ["own=1", "own=1; seen=yes"]


async def test_cookie_of_a_hop_is_not_sent_to_other_hosts(
    server: WireServer, fetcher: Fetcher
) -> None:
    cookies = ("Set-Cookie: a=1", "Set-Cookie: b=2; Domain=localhost", "Set-Cookie: c=3; Domain=.")
    start = server.redirect("/a", server.url("/b", host="localhost"), *cookies)
    server.redirect("/b", server.url("/c"))
    await fetcher.fetch(FetchRequest(start))
    assert [one.headers.get("cookie") for one in server.requests][:2] == [None, None]


async def test_cookie_wall_that_never_opens_is_a_loop(server: WireServer, fetcher: Fetcher) -> None:
    error = await failure(fetcher, FetchRequest(server.redirect("/", "/", "Set-Cookie: a=1")))
    assert error.kind == "redirects"
    assert len(server.requests) == 2


@pytest.mark.parametrize(("status", "method", "body"), [("303", "GET", b""), ("307", "POST", b"p")])
async def test_method_after_redirect(
    server: WireServer, fetcher: Fetcher, status: str, method: str, body: bytes
) -> None:
    start = server.redirect("/a", "/b", status=f"{status} Moved")
    await fetcher.fetch(FetchRequest(start, method="POST", body=b"p"))
    assert (server.last.target, server.last.method, server.last.body) == ("/b", method, body)


async def test_body_is_not_sent_to_another_origin(server: WireServer, fetcher: Fetcher) -> None:
    start = server.redirect("/a", server.url("/b", host="localhost"), status="307 Moved")
    error = await failure(fetcher, FetchRequest(start, method="POST", body=b"private"))
    assert error.kind == "redirects"
    assert server.paths() == ["/a"]


async def test_redirect_reuses_connection(server: WireServer, fetcher: Fetcher) -> None:
    start = server.redirect("/a", "/b")
    fetched: FetchedResponse = await fetcher.fetch(FetchRequest(start))
    assert fetched.status == 404
    assert server.connections == 1
