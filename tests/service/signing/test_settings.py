"""Which file a service and its workers take their keys from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.service.signing.keys import new_key_file, secrets_of
from webdata_nb.service.encryption import new_key
from webdata_nb.service.job_workers.claim_loop import (
    export_to_children,
    worker_options,
    worker_settings,
)
from webdata_nb.service.settings import (
    SECRET_KEY,
    SIGNING_KEYS,
    STORE,
    InvalidSetting,
    ServiceSettings,
)


def checked(data_dir: Path, **options: Any) -> ServiceSettings:
    return ServiceSettings.checked({"data_dir": data_dir, **options})


def test_the_option_goes_before_the_variable_and_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SIGNING_KEYS, raising=False)
    data, named, variable = (tmp_path / name for name in ("data", "named", "variable"))
    assert checked(data).signing_keys is None
    in_data = new_key_file(data)
    assert checked(data).signing_keys == in_data.path
    monkeypatch.setenv(SIGNING_KEYS, str(new_key_file(variable).path))
    assert checked(data).signing_keys == variable / in_data.path.name
    option = new_key_file(named).path
    assert checked(data, signing_keys=option).signing_keys == option


def test_a_service_does_not_start_with_a_file_that_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SIGNING_KEYS, raising=False)
    with pytest.raises(InvalidSetting, match=r"--signing-keys .* cannot be read .No such file"):
        checked(tmp_path, signing_keys=tmp_path / "none.json")
    file = new_key_file(tmp_path)
    secrets = secrets_of(file)
    file.path.write_bytes(file.path.read_bytes().replace(b'"kty": "OKP"', b'"kty": "EC"'))
    with pytest.raises(InvalidSetting, match="signing-keys create") as caught:
        checked(tmp_path)
    assert not any(secret in str(caught.value).encode() for secret in secrets)


def test_workers_of_a_service_need_a_copy_of_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE, "postgresql://u:p@127.0.0.1/x")
    monkeypatch.setenv(SECRET_KEY, new_key())
    monkeypatch.setenv(SIGNING_KEYS, "")
    file = new_key_file(tmp_path)
    service = ServiceSettings(data_dir=tmp_path, mode="team", signing_keys=file.path)
    options = worker_options(service)
    assert not any(secret in str(options).encode() for secret in secrets_of(file))
    assert str(tmp_path) not in str(options)
    with pytest.raises(InvalidSetting, match=f"set {SIGNING_KEYS}"):
        worker_settings(options, tmp_path / "worker", "worker", page_workers=1)
    export_to_children(service)
    assert os.environ[SIGNING_KEYS] == str(file.path)
    settings = worker_settings(options, tmp_path / "worker", "worker", page_workers=1)
    assert settings.signing_keys == file.path
