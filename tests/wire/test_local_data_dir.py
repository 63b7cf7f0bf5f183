"""Tests the fallback directories of the local service."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from webdata_nb.errors import LocalServiceError
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.local import network_file_system


def unwritable_settings(folder: Path) -> Settings:
    """Return settings whose directories would be below a file."""
    home = folder / "a file"
    home.write_text("")
    return Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")


async def test_unwritable_home_is_replaced_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broken = unwritable_settings(tmp_path)
    with pytest.warns(UserWarning, match="cannot be written.*WEBDATA_HOME") as caught:
        service = await local.ensure(broken)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await local.ensure(broken, current=service) is service
        directory = local.resolve_data_directory(broken)
        assert directory.data_dir.is_relative_to(tmp_path)
        assert await local.stop(broken)
    await service.close()


@pytest.mark.parametrize("free_bytes", [0, 65_536, 262_144])
async def test_full_disk_is_named(tmp_path: Path, free_bytes: int) -> None:
    with small_disk(tmp_path, 1) as disk:
        disk.fill(but=free_bytes)
        settings = Settings(
            data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", log_dir=tmp_path / "logs"
        )
        with pytest.raises(LocalServiceError, match=r"no space is left on the disk.*WEBDATA_HOME"):
            await local.ensure(settings)


def resolve_quietly(settings: Settings, mounts: str = "") -> local.DataDirectory:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return local.resolve_data_directory(settings, mounts=mounts)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes and links")
def test_directory_of_other_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broken = unwritable_settings(tmp_path)
    trap = tmp_path / "trap"
    trap.mkdir(mode=0o700)
    ours = tmp_path / f"webdata-{os.getuid()}"
    ours.symlink_to(trap)
    with pytest.raises(LocalServiceError, match="WEBDATA_HOME"):
        resolve_quietly(broken)
    ours.unlink()
    ours.mkdir()
    ours.chmod(0o777)
    with pytest.raises(LocalServiceError, match="WEBDATA_HOME"):
        resolve_quietly(broken)
    ours.chmod(0o700)
    assert resolve_quietly(broken).data_dir.parent == ours


def test_two_homes_have_different_fallbacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = tmp_path / "a file"
    file.write_text("")
    homes = (file / "one", file / "two")
    broken = [Settings(data_dir=home, cache_dir=home, log_dir=home) for home in homes]
    one, two = (resolve_quietly(each).data_dir for each in broken)
    assert one != two
    assert resolve_quietly(broken[0]).data_dir == one


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
//nas/share /mnt/with\\040space cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/vdb /mnt/ssh ext4 rw 0 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Linux's mount table")
@pytest.mark.parametrize(
    ("path", "file_system"),
    [
        ("/var/lib", None),
        ("/home/me/.local/share", "nfs4"),
        ("/homework", None),
        ("/home/me/scratch/x", None),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/ssh/x", None),
    ],
)
def test_network_file_system_is_recognized(path: str, file_system: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == file_system


def test_network_home_is_replaced_by_local_directory(
    tmp_path: Path, local_settings: Settings
) -> None:
    mounts = f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path} nfs rw 0 0\n"
    with pytest.warns(UserWarning, match=r"network file system \(nfs\).*WEBDATA_HOME"):
        directory = local.resolve_data_directory(local_settings, mounts=mounts)
    assert not directory.data_dir.is_relative_to(tmp_path)
    directory.log_dir.rmdir()
    directory.data_dir.rmdir()
    with contextlib.suppress(OSError):  # other fallback directories may be there
        directory.data_dir.parent.rmdir()
