from __future__ import annotations

from ipaddress import ip_address

import pytest

from webdata_nb.service.web.egress_policy import classify_address, embedded_ipv4_addresses

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
