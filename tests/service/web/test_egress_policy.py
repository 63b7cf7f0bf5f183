"""Classes of addresses, and the policy over the wire: what is refused is never dialled."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from tests.service.addresses import NAME_TEXT
from tests.service.web.wire import WireServer
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.egress_policy import (
    EgressMode,
    EgressPolicy,
    classify_address,
    embedded_ipv4_addresses,
)
from webdata_nb.service.web.fetch import Fetcher, FetchRequest

SPECIAL = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
    168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.9
    192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.1 192.168.255.255
    192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
    240.0.0.1 255.255.255.254 255.255.255.255
    :: ::1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
    ::ffff:0:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::127.0.0.1
    64:ff9b::169.254.169.254 64:ff9b:1::1 64:ff9b:1::808:808 100::1 100:0:0:1::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:3::1 2001:4:112::1 2001:10::1
    2001:20::1 2001:30::1 2001:1ff:ffff::1 2001:db8::1 2002:a00:1::1 2002:7f00:1::1
    2002:808:808::1 2620:4f:8000::1 3ffe::1 3fff::1 3fff:fff:ffff::1 4000::1 5f00::1
    8000::1 fc00::1 fd00::1 fdff:ffff::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 feff::1 ff02::1
    ff0e::1 2606:4700:4700::5efe:10.0.0.1 2606:4700:4700::200:5efe:127.0.0.1
"""

PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
    192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255
    203.0.112.255 203.0.114.0 223.255.255.255 93.184.215.14
    ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2000::1 2001:200::1 2001:4860:4860::8888 2003::1
    2606:4700:4700::1111 2a00:1450:4001::1 3ffd::1 3fff:1000::1 2606:4700::5efe:8.8.8.8
"""

METADATA = """
    169.254.169.254 169.254.170.2 169.254.0.1 168.63.129.16 192.0.0.192 100.100.100.200
    fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1
    fe80::a9fe:a9fe
    ::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254
    64:ff9b::100.100.100.200 64:ff9b:1::169.254.169.254 64:ff9b:1:a9fe:a9:fe00::
    2002:a9fe:a9fe::1 2001:0:a9fe:a9fe::1 2001:0:808:808::5601:5601 fd12::5efe:169.254.169.254
    fd12::200:5efe:a9fe:a9fe
"""


@pytest.mark.parametrize("ip", SPECIAL.split())
def test_special_purpose_addresses_are_not_public(ip: str) -> None:
    assert not classify_address(ip).public


@pytest.mark.parametrize("ip", PUBLIC.split())
def test_ordinary_addresses_are_public(ip: str) -> None:
    found = classify_address(ip)
    assert found.public
    assert not found.metadata
    assert not found.this_host


@pytest.mark.parametrize("ip", METADATA.split())
def test_metadata_addresses_and_forms_that_embed_them(ip: str) -> None:
    assert classify_address(ip).metadata
    assert not classify_address(ip).public


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
)
def test_addresses_that_connect_to_this_host(ip: str) -> None:
    assert classify_address(ip).this_host


def test_mapped_address_is_its_ipv4_address() -> None:
    assert str(classify_address("::ffff:10.1.2.3").address) == "10.1.2.3"


def test_invalid_addresses() -> None:
    with pytest.raises(ValueError, match="example"):
        classify_address("example.com")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("2002:0a00:0001::", ["10.0.0.1"]),
        ("2001:0:0a00:1::f5ff:fffe", ["10.0.0.1", "10.0.0.1"]),
        ("64:ff9b::0a00:1", ["10.0.0.1"]),
        ("fe80::5efe:a00:1", ["10.0.0.1"]),
        ("2606:4700::1", []),
        ("10.0.0.1", []),
    ],
)
def test_embedded_addresses(outer: str, inner: list[str]) -> None:
    assert [str(one) for one in embedded_ipv4_addresses(ip_address(outer))] == inner


POLICY_TEXT = "The network policy of this service does not allow that address."
LOOPBACK = """
    127.0.0.1 127.1 0x7f.1 0x7f000001 2130706433 017700000001 0177.0.0.1 127.0.0.1.
    %31%32%37.0.0.1
    127.000.000.001 \uff11\uff12\uff17.0.0.1 127\u30020\u30020\u30021
    [0:0:0:0:0:ffff:7f00:1] [::ffff:127.0.0.1]
    localhost LOCALHOST localhost. lo.test
"""
NOT_ADMITTED = """
    0 0.0.0.0 127.127.127.127 [::1] [::] [::127.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1]
    [64:ff9b:1::7f00:1] [2002:7f00:1::] [2001:0:7f00:1::] [fe80::5efe:7f00:1]
    10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 169.254.170.2 168.63.129.16 192.0.0.192
    100.100.100.200 100.64.0.1 192.88.99.1 198.18.0.1 224.0.0.1 255.255.255.255 240.0.0.1
    0xa9fea9fe 2852039166 0251.0376.0251.0376 [::ffff:a9fe:a9fe] [fd00:ec2::254] [fd20:ce::254]
    [fe80::1] [fec0::1] [ff02::1] [3fff::1] [5f00::1] [64:ff9b:1::1] [2001:db8::1]
    private.test mixed.test metadata.test
"""
NAMES: dict[str, Sequence[str]] = {
    "site.test": ["127.0.0.1"],
    "lo.test": ["127.0.0.1"],
    "localhost": ["127.0.0.1"],
    "localhost.": ["127.0.0.1"],
    "private.test": ["10.0.0.1"],
    "mixed.test": ["93.184.215.14", "10.0.0.1"],
    "metadata.test": ["169.254.169.254"],
}
THIS_MACHINE = (ip_network("127.0.0.1/32"),)


async def look_up(host: str) -> Sequence[str]:
    return NAMES[host]


def refusal(host: str) -> str:
    """Return what a team is told: of a name never whether it is known."""
    name = host.lower()
    return NAME_TEXT.format(name) if name in NAMES else POLICY_TEXT


def fetcher_for(policy: EgressPolicy) -> Fetcher:
    return Fetcher(policy, user_agent="x", lookup=look_up)


async def fetch_error_text(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(FetchRequest(url, timeout_s=5))
    return str(caught.value)


@pytest.mark.parametrize("host", (LOOPBACK + NOT_ADMITTED).split())
async def test_private_targets_are_refused_in_team_mode(server: WireServer, host: str) -> None:
    async with fetcher_for(EgressPolicy("team")) as fetcher:
        assert await fetch_error_text(fetcher, server.url(host=host)) == refusal(host)
    assert server.connections == 0


@pytest.mark.parametrize("host", NOT_ADMITTED.split())
async def test_redirect_to_private_target_is_refused(server: WireServer, host: str) -> None:
    async with fetcher_for(EgressPolicy("team", THIS_MACHINE)) as fetcher:
        start = server.redirect("/", server.url("/inside", host=host))
        assert await fetch_error_text(fetcher, start) == refusal(host)
    assert server.paths() == ["/"]


@pytest.mark.parametrize("host", [*LOOPBACK.split(), "site.test"])
async def test_listed_network_is_allowed_in_every_notation(server: WireServer, host: str) -> None:
    server.page("/", b"inside")
    async with fetcher_for(EgressPolicy("team", THIS_MACHINE)) as fetcher:
        assert (await fetcher.fetch(FetchRequest(server.url(host=host)))).body == b"inside"


@pytest.mark.parametrize("host", [*LOOPBACK.split(), "site.test"])
async def test_local_mode_allows_this_machine_but_not_the_service(
    server: WireServer, host: str
) -> None:
    server.page("/", b"mine")
    async with fetcher_for(EgressPolicy("local")) as fetcher:
        assert (await fetcher.fetch(FetchRequest(server.url(host=host)))).body == b"mine"
    async with fetcher_for(EgressPolicy("local", own_port=server.port)) as fetcher:
        assert await fetch_error_text(fetcher, server.url(host=host)) == POLICY_TEXT


@pytest.mark.parametrize("host", ["metadata.test", "169.254.169.254", "[::ffff:169.254.169.254]"])
async def test_local_mode_refuses_metadata(host: str) -> None:
    async with fetcher_for(EgressPolicy("local")) as fetcher:
        assert await fetch_error_text(fetcher, f"http://{host}/latest/meta-data/") == POLICY_TEXT


async def test_host_header_keeps_name(server: WireServer) -> None:
    async with fetcher_for(EgressPolicy("local")) as fetcher:
        await fetcher.fetch(FetchRequest(server.url(host="Site.TEST")))
    assert server.last.headers["host"] == f"site.test:{server.port}"


async def test_dns_rebinding_is_not_followed(server: WireServer) -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebind(_host: str) -> Sequence[str]:
        return answers.pop(0)

    url = server.page("/", b"x", "Connection: close")
    policy = EgressPolicy("team", THIS_MACHINE)
    async with Fetcher(policy, user_agent="x", lookup=rebind) as fetcher:
        for _ in range(2):
            await fetcher.fetch(FetchRequest(url.replace("127.0.0.1", "site.test")))
    assert len(answers) == 1
    assert server.connections == 2


async def test_socket_factory_refuses_forbidden_address(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were every earlier check to fail, the dial of the address would still be refused."""

    async def no_check(*_: object) -> None:
        return None

    monkeypatch.setattr(Fetcher, "_check_hop", no_check)
    async with fetcher_for(EgressPolicy("team")) as fetcher:
        assert await fetch_error_text(fetcher, server.url()) == POLICY_TEXT
    assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:secret@site.test/",
        "http://site.test:22/",
        "http://site.test:25/",
    ],
)
async def test_refusal_needs_no_lookup(url: str) -> None:
    async def no_lookup(host: str) -> Sequence[str]:
        raise AssertionError(host)

    async with Fetcher(EgressPolicy("local"), user_agent="x", lookup=no_lookup) as fetcher:
        with pytest.raises(EgressDenied):
            await fetcher.fetch(FetchRequest(url))


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("team", NAME_TEXT.format("site.test")),
        ("local", "The host 'site.test' could not be found (Name or service not known)."),
    ],
)
async def test_unknown_name_fails(server: WireServer, mode: EgressMode, words: str) -> None:
    async def nowhere(_host: str) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    async with Fetcher(EgressPolicy(mode), user_agent="x", lookup=nowhere) as fetcher:
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(FetchRequest(server.url(host="site.test")))
    assert (caught.value.kind, str(caught.value)) == ("dns", words)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://10.0.0.1/hook", "refused"),
        ("http://private.test/hook", "dns"),
        ("http://mixed.test/hook", "dns"),
        ("http://ann:pw@site.test/hook", "refused"),
        ("http://unknown.test/hook", "dns"),
        ("ftp://site.test/hook", "bad_url"),
        ("http://site.test/hook", None),
    ],
)
async def test_check_sends_no_request(url: str, kind: str | None) -> None:
    async def know(host: str) -> Sequence[str]:
        if host not in NAMES:
            raise OSError(-2, "Name or service not known")
        return NAMES[host]

    policy = EgressPolicy("team", THIS_MACHINE)
    async with Fetcher(policy, user_agent="x", lookup=know) as fetcher:
        if kind is None:
            await fetcher.check(url)
        else:
            with pytest.raises(FetchError) as caught:
                await fetcher.check(url)
            assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("host", "requested_host"),
    [
        ("b\u00fccher.test", "xn--bcher-kva.test"),
        ("a_b.test", "a_b.test"),
        ("-a-.test", "-a-.test"),
        ("*.test", "*.test"),
        ("XN--BCHER-KVA.test", "xn--bcher-kva.test"),
    ],
)
async def test_unusual_names_are_resolved_as_checked(
    server: WireServer, host: str, requested_host: str
) -> None:
    names: list[str] = []

    async def note(name: str) -> Sequence[str]:
        names.append(name)
        return ["127.0.0.1"]

    server.page("/", b"x")
    async with Fetcher(EgressPolicy("local"), user_agent="x", lookup=note) as fetcher:
        await fetcher.fetch(FetchRequest(server.url(host=host)))
    assert names == [requested_host]
    assert server.last.headers["host"] == f"{requested_host}:{server.port}"
