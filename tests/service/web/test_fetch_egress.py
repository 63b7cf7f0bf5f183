from __future__ import annotations

from ipaddress import ip_network

import pytest

from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied
from webdata_nb.service.web.egress_policy import EgressPolicy

LOCAL = EgressPolicy("local", own_port=8321)
TEAM = EgressPolicy("team", (ip_network("10.1.0.0/16"), ip_network("fd12::/16")), own_port=8321)


def is_refused(policy: EgressPolicy, ip: str, port: int = 80) -> bool:
    try:
        policy.check_address(ip, port)
    except EgressDenied:
        return True
    return False


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "fd12::1", "8.8.8.8"]
)
def test_local_mode_allows_private_networks(ip: str) -> None:
    assert not is_refused(LOCAL, ip)


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "fe80::1", "fd13::1"]
)
def test_team_mode_refuses_private_networks(ip: str) -> None:
    assert is_refused(TEAM, ip)


@pytest.mark.parametrize(
    "ip", ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "8.8.8.8", "2606:4700::1"]
)
def test_team_mode_allows_public_and_listed_networks(ip: str) -> None:
    assert not is_refused(TEAM, ip)


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "::ffff:a9fe:a9fe",
        "100.100.100.200",
        "fd00:ec2::254",
        "64:ff9b::a9fe:a9fe",
    ],
)
@pytest.mark.parametrize("mode", ["local", "team"])
def test_metadata_is_always_refused(mode: str, ip: str) -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    policy = EgressPolicy("team", everything) if mode == "team" else LOCAL
    assert is_refused(policy, ip)


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"]
)
def test_own_port_is_refused_on_this_host(ip: str) -> None:
    assert is_refused(LOCAL, ip, 8321)
    assert not is_refused(LOCAL, ip, 8322)


def test_own_port_is_allowed_on_other_hosts() -> None:
    assert not is_refused(LOCAL, "192.168.1.1", 8321)


@pytest.mark.parametrize("ip", ["", "example.com", "1.2.3", "0x7f.1", "2130706433"])
def test_invalid_address_is_refused(ip: str) -> None:
    assert is_refused(LOCAL, ip)


def test_refusals_have_one_message() -> None:
    refusals = set()
    for ip in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "nonsense"):
        with pytest.raises(EgressDenied) as caught:
            TEAM.check_address(ip, 80)
        refusals.add((str(caught.value), caught.value.kind))
    assert refusals == {
        ("The network policy of this service does not allow that address.", "refused")
    }


@pytest.mark.parametrize("url", ["http://ann@example.com/", "http://ann:pw@example.com/"])
def test_url_with_credentials_is_refused(url: str) -> None:
    for policy in (LOCAL, TEAM):
        with pytest.raises(EgressDenied, match="user name or password") as caught:
            policy.check_url(url)
        assert "pw" not in str(caught.value).split()


@pytest.mark.parametrize("port", [1, 22, 25, 110, 143, 993, 6000, 6667, 10080])
def test_bad_ports_are_refused_in_both_modes(port: int) -> None:
    for policy in (LOCAL, TEAM):
        with pytest.raises(EgressDenied, match=f"Port {port}"):
            policy.check_url(f"http://example.com:{port}/")


@pytest.mark.parametrize("port", [81, 90, 1023, 2375, 3306, 5432, 6379, 9200, 11211, 27017])
def test_data_service_ports_are_refused_in_team_mode(port: int) -> None:
    LOCAL.check_url(f"http://example.com:{port}/")
    with pytest.raises(EgressDenied, match=f"Port {port}"):
        TEAM.check_url(f"http://example.com:{port}/")


@pytest.mark.parametrize("port", [80, 443, 1080, 3000, 8000, 8080, 8443, 8888, 49152])
def test_web_ports_are_allowed(port: int) -> None:
    TEAM.check_url(f"https://example.com:{port}/")


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "gopher://example.com/", "file:///etc/passwd"]
)
def test_other_schemes_are_invalid(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        LOCAL.check_url(url)
    assert caught.value.kind == "bad_url"
