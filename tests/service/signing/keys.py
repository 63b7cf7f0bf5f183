"""Keys of a service for tests, and a site that reads their directory."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.site.server import Hit
from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet, directory_body
from webdata_nb.service.signing.request_signer import KEY_FILE, SigningKeyFile

AGENT: Final = "https://bot.example.com"


def new_key_file(folder: Path, *, starts_at: float | None = None) -> SigningKeyFile:
    """Create a file with one key."""
    file = SigningKeyFile(folder / KEY_FILE)
    key = SigningKey.generate(starts_at=int(time.time() if starts_at is None else starts_at))
    file.create(SigningKeySet(AGENT, (key,)))
    return file


def published(file: SigningKeyFile, now: float) -> Mapping[str, Any]:
    """Return the directory of the keys in a file."""
    directory: Mapping[str, Any] = json.loads(directory_body(file.read(), now))
    return directory


def received_at(hit: Hit) -> float:
    """Return when a request arrived (Unix seconds)."""
    return time.time() - (time.monotonic() - hit.time)


def secrets_of(file: SigningKeyFile) -> list[bytes]:
    """Return each form of each secret that a leak could show."""
    seeds = [key.private_key.private_bytes_raw() for key in file.read().keys]
    texts = [jwk["d"].encode() for jwk in json.loads(file.path.read_bytes())["keys"]]
    return [*seeds, *texts, *(seed.hex().encode() for seed in seeds)]
