"""The addresses and URLs that the door lets through, by a table of tricks."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.errors import SetupError
from kontobahn.outbound import Refused, Rule, is_private_host, is_public

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2001:200::1", "2400:cb00::1", "2606:4700::1111", "2a00:1450:4001:81b::200e",
]  # fmt: skip
NOT_PUBLIC = {
    "this network": ["0.0.0.0", "0.1.2.3", "::"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1"],
    "shared": ["100.64.0.1", "100.127.255.255"],
    "link-local": ["169.254.169.254", "fe80::1", "fe80::1%eth0"],
    "site-local": ["fec0::1"],
    "protocol assignments": ["192.0.0.1", "192.0.0.170", "2001::1", "2001:1::1", "2001:20::1"],
    "benchmarks": ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "relays": ["192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "5f00::1", "4000::1", "e000::1"],
    "IPv4 in IPv6": ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:0:8.8.8.8"],
    "NAT64": ["64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1"],
    "6to4": ["2002:7f00:1::", "2002:808:808::1"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "discard": ["100::1"],
}


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(("kind", "address"), [(kind, item) for kind, items in NOT_PUBLIC.items() for item in items])
def test_no_other_address_passes(kind: str, address: str) -> None:
    assert not is_public(ipaddress.ip_address(address)), kind


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_nothing_that_python_calls_private_passes(number: int) -> None:
    """Ours is stricter than the standard library's in places, and laxer nowhere."""
    address = ipaddress.IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or address.is_link_local:
        assert not is_public(address)


TAKEN = [
    "https://receiver.example/hook",
    "https://receiver.example",
    "https://receiver.example?a=b",
    "HTTPS://Receiver.Example/Hook?x=%20y",
    "https://receiver.example:443/",
    "https://receiver.example:8443/",
    "https://xn--bcher-kva.example/",
    "https://93.184.216.34/hook",
    "https://[2606:4700::1111]/hook",
    "https://1.receiver.example/",
    "https://localdomain.example/",
    "https://mylocaldomain.example/",
]
REFUSED = [
    ("http://receiver.example/", "https"),
    ("ftp://receiver.example/", "https"),
    ("//receiver.example/", "form"),
    ("receiver.example", "form"),
    ("https:receiver.example", "form"),
    ("https:///x", "host"),
    ("https://", "host"),
    ("", "form"),
    ("javascript:alert(1)", "form"),
    # Ports
    ("https://receiver.example:22/", "port"),
    ("https://receiver.example:0/", "port"),
    ("https://receiver.example:65536/", "port"),
    ("https://receiver.example:/", "host"),
    ("https://receiver.example:44३/", "ASCII"),
    # User names, and hosts that only look like one
    ("https://user@receiver.example/", "user name"),
    ("https://user:secret@receiver.example/", "user name"),
    ("https://receiver.example@127.0.0.1/", "user name"),
    ("https://receiver.example%40127.0.0.1/", "host"),
    ("https://receiver.example\\@127.0.0.1/", "user name"),
    ("https://127.0.0.1\\receiver.example/", "host"),
    ("https://receiver.example#@127.0.0.1/", "form"),
    ("https://receiver.example/#fragment", "form"),
    # Loopback and the like, spelt in every way
    ("https://localhost/", "private network"),
    ("https://LOCALHOST/", "private network"),
    ("https://localhost./", "dot"),
    ("https://a.localhost/", "private network"),
    ("https://metadata.google.internal/", "private network"),
    ("https://printer.local/", "private network"),
    ("https://Localhost.localdomain/", "private network"),
    ("https://localhost6.LOCALDOMAIN6/", "private network"),
    ("https://localdomain/", "private network"),
    ("https://nas.home/", "private network"),
    ("https://mail.corp/", "private network"),
    ("https://intranet/", "private network"),
    ("https://127.0.0.1/", "public"),
    ("https://127.0.0.1./", "dot"),
    ("https://127.1/", "spelling"),
    ("https://127.0.1/", "spelling"),
    ("https://2130706433/", "spelling"),
    ("https://0x7f000001/", "spelling"),
    ("https://0x7f.0x0.0x0.0x1/", "spelling"),
    ("https://0x7F.1/", "spelling"),
    ("https://0177.0.0.1/", "spelling"),
    ("https://017700000001/", "spelling"),
    ("https://127.0.0.01/", "spelling"),
    ("https://1.1.1.256/", "spelling"),
    ("https://0x/", "spelling"),
    ("https://１２７.0.0.1/", "ASCII"),
    ("https://127。0。0。1/", "ASCII"),
    ("https://①②⑦.0.0.1/", "ASCII"),
    ("https://ⓛocalhost/", "ASCII"),
    ("https://localhost\u3002/", "ASCII"),
    ("https://bücher.example/", "ASCII"),
    ("https://%6c%6f%63%61%6c%68%6f%73%74/", "host"),
    ("https://0.0.0.0/", "public"),
    ("https://169.254.169.254/latest/meta-data", "public"),
    ("https://10.1.2.3/", "public"),
    ("https://[::1]/", "public"),
    ("https://[::]/", "public"),
    ("https://[::ffff:127.0.0.1]/", "public"),
    ("https://[::ffff:7f00:1]/", "public"),
    ("https://[64:ff9b::7f00:1]/", "public"),
    ("https://[fe80::1%25eth0]/", "host"),
    ("https://[::1", "host"),
    ("https://[1:2]/", "IPv6"),
    ("https://::1/", "host"),
    # Names that are none
    ("https://receiver.example./", "dot"),
    ("https://receiver..example/", "name"),
    ("https://-receiver.example/", "name"),
    ("https://receiver_.example/", "host"),
    ("https://" + "a" * 64 + ".example/", "name"),
    ("https://receiver.example/" + "a" * 2000, "longer"),
    ("https://receiver.example/a b", "form"),
    ("https://receiver.example/a\nb", "form"),
    ("https://receiver.example/a\r\nhost: x", "form"),
    (" https://receiver.example/", "form"),
    ("https://receiver.example/\x00", "form"),
    ("https://receiver.example/%zz", "form"),
]


def test_a_name_may_be_as_long_as_names_may_be() -> None:
    longest = "aa." * 82 + "example"
    assert len(longest) == 253
    assert Rule().parse(f"https://{longest}/").host == longest
    with pytest.raises(Refused, match="valid name"):
        Rule().parse(f"https://a{longest}/")


@pytest.mark.parametrize("url", TAKEN)
def test_a_public_https_url_is_taken(url: str) -> None:
    target = Rule().parse(url)
    assert target.scheme == "https"
    assert target.tail.startswith("/")


@pytest.mark.parametrize(("url", "word"), REFUSED)
def test_every_other_url_is_refused_with_the_rule_it_breaks(url: str, word: str) -> None:
    with pytest.raises(Refused, match=word):
        Rule().parse(url)


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_no_text_gets_past_the_rule_by_accident(text: str) -> None:
    for url in (text, f"https://{text}", f"https://{text}/", f"https://{text}.example/"):
        try:
            target = Rule().parse(url)
        except Refused:
            continue
        assert target.host.isascii()
        assert "@" not in target.host


def test_what_the_operator_names_may_be_private_and_without_tls() -> None:
    rule = Rule.of_setting(" localhost:3000 , Receiver.test:8443,127.0.0.1:80, [::1]:3000 ")
    for url in (
        "http://localhost:3000/x", "https://localhost:3000/x", "https://receiver.test:8443/", "http://127.0.0.1/",
        "http://[::1]:3000/",
    ):  # fmt: skip
        assert rule.parse(url)
    for url in ("http://localhost:3001/", "http://localhost/", "http://127.0.0.1:3000/", "http://localhost.:3000/"):
        with pytest.raises(Refused):
            rule.parse(url)


@pytest.mark.parametrize("text", ["localhost", "localhost:", "http://localhost:3000", "a b:1", "*:3000"])
def test_a_setting_that_cannot_be_read_stops_the_start(text: str) -> None:
    with pytest.raises(SetupError, match="webhook_allow"):
        Rule.of_setting(text)


@pytest.mark.parametrize(
    ("host", "port", "word"),
    [
        ("mail.example", 143, "port"), ("mail.example", 994, "port"), ("mail.example", 443, "port"),
        ("localhost", 993, "private network"), ("mailbox", 993, "private network"), ("mail.internal", 993, "private network"),
        ("10.0.0.1", 993, "not public"), ("::1", 993, "not public"), ("0x7f.1", 993, "unusual spelling"),
        ("mail.example.", 993, "dot"), ("mail example", 993, "valid name"),
    ],
)  # fmt: skip
def test_a_host_without_a_url_is_held_to_its_ports_and_to_the_rule_of_names(host: str, port: int, word: str) -> None:
    with pytest.raises(Refused, match=word):
        Rule().check_host(host, port, (993,))
    Rule().check_host("mail.example", 993, (993,))
    Rule().check_host("mail.example", 994, (993, 994))
    for named in ("localhost:143", "10.0.0.1:994"):
        rule, (name, _, number) = Rule.of_setting(named), named.rpartition(":")
        rule.check_host(name, int(number), (993,))
        with pytest.raises(Refused):
            rule.check_host(name, 993, (993,))


@pytest.mark.parametrize(
    ("host", "is_private"),
    [
        ("localhost", True), ("mailbox", True), ("nas.home.arpa", True), ("printer.local", True), ("10.0.0.1", True), ("::1", True),
        ("receiver.example", False), ("home.arpa.example", False), ("93.184.216.34", False), ("2606:4700::1111", False),
        ("_x.local", False), ("", False),
    ],
)  # fmt: skip
def test_a_host_is_private_by_its_address_or_by_its_name(host: str, is_private: bool) -> None:
    assert is_private_host(host) == is_private
