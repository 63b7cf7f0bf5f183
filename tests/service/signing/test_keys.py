"""The file of the keys, its rotation, and which key signs at which second."""

from __future__ import annotations

import json
import logging
import pickle
import stat
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from tests.service.signing.keys import AGENT, new_key_file, published, secrets_of
from tests.service.signing.verifier import NotVerified, Verified, Verifier
from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet, check_agent
from webdata_nb.service.signing.request_signer import (
    CHECK_INTERVAL_S,
    REQUEST_LIFETIME_S,
    CurrentSigningKeys,
    RequestSigner,
    SigningKeyFile,
)

START = 1_700_000_000
HOUR = 3600
DAY = 24 * HOUR


@dataclass
class SigningService:
    """A process that signs at a time of its own, and a site with the same or another clock."""

    file: SigningKeyFile
    now: float = START
    elapsed: float = 0.0
    signer: RequestSigner = field(init=False)
    verifier: Verifier = field(init=False)

    def __post_init__(self) -> None:
        self.restart()
        self.verifier = Verifier(lambda _agent: published(self.file, self.now))

    def restart(self) -> None:
        keys = CurrentSigningKeys(self.file, monotonic=lambda: self.elapsed)
        self.signer = RequestSigner(keys, clock=lambda: self.now)

    def rotate(self, *, start_in: int, keep: int) -> str:
        key = SigningKey.generate(starts_at=int(self.now) + start_in)
        self.file.replace(self.file.read().rotated(key, now=self.now, keep_s=keep))
        self.elapsed += CHECK_INTERVAL_S
        return key.thumbprint

    def sign(self) -> dict[str, str]:
        signed = self.signer.headers("GET", "site.test", "/")
        return {name.lower(): value for name, value in signed.items()} | {"host": "site.test"}

    def verify(self, headers: dict[str, str], at: float) -> Verified:
        return self.verifier.verify_request("GET", "/", headers, at)

    def keyid_at(self, now: float) -> str:
        self.now = now
        return self.verify(self.sign(), now).keyid


@pytest.fixture
def service(tmp_path: Path) -> SigningService:
    return SigningService(new_key_file(tmp_path, starts_at=START))


def test_signatures_are_valid_from_their_second_until_they_expire(service: SigningService) -> None:
    service.now = START + 0.999
    for at, valid in (
        (START - 0.001, False),
        (START, True),
        (START + REQUEST_LIFETIME_S - 0.001, True),
        (START + REQUEST_LIFETIME_S, False),
    ):
        headers = service.sign()
        if valid:
            assert service.verify(headers, at).agent == AGENT
        else:
            with pytest.raises(NotVerified, match="not valid"):
                service.verify(headers, at)


def test_a_new_key_is_published_before_it_signs_and_the_old_one_stays_until_its_end(
    service: SigningService,
) -> None:
    first = service.keyid_at(START + 10)
    second = service.rotate(start_in=DAY, keep=7 * DAY)
    starts = START + 10 + DAY
    ends = starts + 7 * DAY
    assert [jwk["kid"] for jwk in published(service.file, service.now)["keys"]] == [first, second]
    assert service.keyid_at(starts - 1) == first
    last_of_first = service.sign()
    assert service.keyid_at(starts) == second
    assert service.verify(last_of_first, starts).keyid == first
    for now, kids in ((ends - 1, [first, second]), (ends, [second])):
        service.now = now
        directory = published(service.file, now)
        assert [jwk["kid"] for jwk in directory["keys"]] == kids
    assert directory["keys"][0].keys() == {"kty", "crv", "kid", "x", "use", "nbf"}
    # A restart, and a file that a rotation cleans up, change nothing.
    service.restart()
    assert service.keyid_at(ends + 1) == second


def test_a_lost_key_ends_at_once(service: SigningService) -> None:
    first = service.keyid_at(START + 10)
    stolen = service.sign()
    second = service.rotate(start_in=0, keep=0)
    assert service.keyid_at(service.now) == second
    with pytest.raises(NotVerified, match="no such key"):
        service.verify(stolen, service.now)
    assert first not in service.file.path.read_text()


def test_rotations_that_overlap_leave_no_second_without_a_key(service: SigningService) -> None:
    kids = [service.keyid_at(START)]
    kids.append(service.rotate(start_in=2 * DAY, keep=DAY))
    kids.append(service.rotate(start_in=3 * DAY, keep=DAY))
    by_time = [service.keyid_at(START + hours * HOUR) for hours in range(0, 6 * 24, 6)]
    assert [by_time.index(kid) for kid in kids] == [0, 8, 12]
    assert sorted(set(by_time), key=by_time.index) == kids
    # An earlier start replaces those that would have come later.
    service.now = START
    fourth = service.rotate(start_in=HOUR, keep=HOUR)
    assert {jwk["kid"] for jwk in published(service.file, START)["keys"]} == {kids[0], fourth}
    assert service.keyid_at(START + HOUR) == fourth
    # A clock that was set back before every start signs with what the directory has.
    assert service.keyid_at(START - 10 * DAY) == kids[0]


def test_a_process_reads_a_replaced_file_within_seconds(service: SigningService) -> None:
    first = service.keyid_at(START)
    second = SigningKey.generate(starts_at=START)
    service.file.replace(service.file.read().rotated(second, now=START, keep_s=0))
    service.elapsed += CHECK_INTERVAL_S - 0.1
    assert service.signer.key_set.active(START).thumbprint == first
    service.elapsed += 0.1
    assert service.signer.key_set.active(START).thumbprint == second.thumbprint


def test_a_file_that_is_damaged_or_gone_leaves_the_keys_in_use(
    service: SigningService, caplog: pytest.LogCaptureFixture
) -> None:
    first, secrets = service.keyid_at(START), secrets_of(service.file)
    content = service.file.path.read_bytes()
    for damage in (content[:-40], b"", None):
        if damage is None:
            service.file.path.unlink()
        else:
            service.file.path.write_bytes(damage)
        service.elapsed += CHECK_INTERVAL_S
        assert service.signer.key_set.active(START).thumbprint == first
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert all("stay in use" in record.getMessage() for record in caplog.records)
    assert not any(secret in caplog.text.encode() for secret in secrets)


def test_only_the_owner_can_read_a_new_or_rotated_file(
    service: SigningService, caplog: pytest.LogCaptureFixture
) -> None:
    path = service.file.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    service.rotate(start_in=0, keep=DAY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with pytest.raises(FileExistsError):
        service.file.create(service.file.read())
    assert not caplog.records
    path.chmod(0o640)
    service.restart()
    assert f"chmod 600 {path}" in caplog.text


def test_a_rotation_replaces_the_file_that_a_symbolic_link_names(service: SigningService) -> None:
    path = service.file.path
    target = path.rename(path.with_name("kept-elsewhere"))
    path.symlink_to(target)
    service.rotate(start_in=0, keep=DAY)
    assert path.is_symlink()
    assert len(SigningKeyFile(target).read().keys) == 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signature_agent": "http://bot.example.com"}, "https origin"),
        ({"signature_agent": None}, "https origin"),
        ({"keys": []}, "1 to 16 keys"),
        ({"keys": "k"}, "1 to 16 keys"),
        ({"keys": [7]}, "key number 1 is no Ed25519"),
        ({"d": "AAAA"}, "is no Ed25519"),
        ({"d": "é"}, "is no Ed25519"),
        ({"d": None}, "is no Ed25519"),
        ({"crv": "X25519"}, "is no Ed25519"),
        ({"x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}, "another key"),
        ({"nbf": "soon"}, "`nbf` and `exp`"),
        ({"nbf": True}, "`nbf` and `exp`"),
        ({"exp": START}, "last key"),
    ],
)
def test_other_files_are_refused_in_one_sentence_without_their_secrets(
    service: SigningService, change: dict[str, object], message: str
) -> None:
    stored = json.loads(service.file.path.read_bytes())
    secrets = secrets_of(service.file)
    in_file = {"signature_agent", "keys"} & change.keys()
    (stored if in_file else stored["keys"][0]).update(change)
    service.file.path.write_bytes(orjson.dumps(stored))
    with pytest.raises(ValueError, match=message) as caught:
        service.file.read()
    text = str(caught.value)
    assert text.startswith(f"{service.file.path} is no file of signing keys: ")
    assert "\n" not in text
    assert not any(secret in text.encode() for secret in secrets)
    assert caught.value.__suppress_context__


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for content, message in (
        (None, "No such file"),
        (b"\xff", "not JSON"),
        (b"[]", "no list"),
        (b" " * 70_000, "too large"),
    ):
        file = SigningKeyFile(tmp_path / "keys")
        if content is not None:
            file.path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            file.read()
    with pytest.raises(ValueError, match="directory"):
        SigningKeyFile(tmp_path).read()


def test_keys_cannot_be_shown_or_sent_by_accident(service: SigningService) -> None:
    keys = service.file.read()
    shown = f"{keys!r} {keys} {service.signer!r} {vars(keys.keys[0])}".encode()
    assert not any(secret in shown for secret in secrets_of(service.file))
    with pytest.raises(TypeError):
        pickle.dumps(keys)


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://bot.example.com", "https://bot.example.com"),
        (" https://BOT.example.com:443/ ", "https://bot.example.com"),
        ("https://bot.example.com:8443", "https://bot.example.com:8443"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
        ("http://bot.example.com", None),
        ("https://bot.example.com/path", None),
        ("https://user:password@bot.example.com", None),
        ("https://bücher.example", None),
        ('https://bot.example.com"', None),
        ("bot.example.com", None),
        ("https://", None),
        ("https://bot..example.com", None),
        ("https://bot.example.com:70000", None),
    ],
)
def test_the_agent_is_an_https_origin(given: str, origin: str | None) -> None:
    if origin is None:
        with pytest.raises(ValueError, match="https origin without a path"):
            check_agent(given)
    else:
        assert check_agent(given) == origin
        keys = SigningKeySet(check_agent(given), (SigningKey.generate(starts_at=0),))
        assert SigningKeySet.from_json(keys.to_json()).agent == origin


def test_files_keep_their_keys(service: SigningService) -> None:
    service.rotate(start_in=DAY, keep=DAY)
    written = service.file.path.read_bytes()
    assert service.file.read().to_json() == written
