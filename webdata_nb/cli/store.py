"""Commands for the encryption keys and the database of a service."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.cli.commands import Commands, add_command, add_group, report
from webdata_nb.cli.data_dir import StorePlace, add_store_command
from webdata_nb.errors import WebdataError

if TYPE_CHECKING:
    from webdata_nb.service.store.backends import CheckResult

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it


def add_commands(commands: Commands) -> None:
    """Add the commands `secrets` and `store`."""
    _add_secrets(add_group(commands, "secrets", "Manage the keys that encrypt jobs' secrets."))
    _add_store(add_group(commands, "store", "Check or back up the database of a service."))


# Secrets


def _add_secrets(group: Commands) -> None:
    text = "Encrypt all secrets with a new key; the service may run meanwhile."
    add_store_command(group, "rotate", _rotate_secrets, text)
    text = "Print a new key for WEBDATA_SECRET_KEY."
    add_command(group, "new-key", _print_new_secret_key, text)


def _rotate_secrets(place: StorePlace, _args: argparse.Namespace) -> None:
    import asyncio

    from webdata_nb.service.encryption import KEY_FILE, KeyFile
    from webdata_nb.service.settings import SECRET_KEY, secret_keys

    keys = secret_keys()
    if not keys and place.url is not None:
        raise WebdataError(
            f"{SECRET_KEY} must have the new key and the old one, separated by a comma"
        )
    if not keys:
        KeyFile(place.directory / KEY_FILE).rotate()
    encrypted, unreadable_count = asyncio.run(_reencrypt(place, keys))
    report(f"encrypted the secrets of {encrypted} jobs with the first key")
    if unreadable_count:
        raise WebdataError(
            f"the secrets of {unreadable_count} jobs need a key that is missing here"
        )


async def _reencrypt(place: StorePlace, keys: tuple[str, ...]) -> tuple[int, int]:
    from webdata_nb.service.settings import secret_cipher_for
    from webdata_nb.service.store.backends import open_store

    cipher = secret_cipher_for(place.directory, keys)
    async with open_store(place.directory, cipher, place.url) as store:
        return await store.secrets.reencrypt()


def _print_new_secret_key(_args: argparse.Namespace) -> None:
    from webdata_nb.service.encryption import new_key

    print(new_key())


# Store


def _add_store(group: Commands) -> None:
    text = (
        "Look for damage and contradictions in the database, and for wrong settings of a server; "
        "the service may run meanwhile."
    )
    check = add_store_command(group, "check", _check_store, text, store_flag=False)
    check.add_argument(
        "store",
        nargs="?",
        metavar="URL",
        help="database on PostgreSQL (default: WEBDATA_STORE, or SQLite in DIR)",
    )
    check.add_argument(
        "--blobs",
        metavar="URL",
        help="the service's folder for files, whose stored pages are read (default: WEBDATA_BLOBS)",
    )
    text = "Copy the database to a new file; the service may run meanwhile."
    backup = add_store_command(group, "backup", _back_up_store, text)
    backup.add_argument("file", type=Path, metavar="FILE", help="a file that does not exist yet")


def _check_store(place: StorePlace, args: argparse.Namespace) -> int:
    import asyncio

    from webdata_nb.service.settings import blobs_url

    results = asyncio.run(_run_checks(place, blobs_url(args.blobs)))
    for result in results:
        state = f"{len(result.problems)} wrong" if result.problems else "ok"
        print(f"{result.check}: {state}{f', {result.detail}' if result.detail else ''}")
        for problem in result.problems:
            print(f"  {problem}")
    return int(any(result.problems for result in results))


async def _run_checks(place: StorePlace, blobs_url: str | None) -> list[CheckResult]:
    from webdata_nb.service.blobs.store import open_blob_store
    from webdata_nb.service.segments.reader import check_segments
    from webdata_nb.service.store.backends import check_store

    async with open_blob_store(blobs_url, place.directory) as blobs:
        check_files = functools.partial(
            check_segments, blobs=blobs if blobs_url is not None else None
        )
        return await check_store(place.directory, place.url, check_files)


def _back_up_store(place: StorePlace, args: argparse.Namespace) -> None:
    if place.url is not None:
        raise WebdataError(
            "this command copies SQLite files; copy a database on PostgreSQL with pg_dump"
        )
    from webdata_nb.service.encryption import KEY_FILE
    from webdata_nb.service.store.backends import back_up_store

    directory = place.directory
    size = back_up_store(directory, args.file.absolute())
    report(f"wrote {args.file}, {size} bytes")
    if (key_file := directory / KEY_FILE).exists():
        report(f"its encrypted values open with the key in {key_file}; store that file elsewhere")
