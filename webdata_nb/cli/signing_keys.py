"""Commands for the keys that sign a service's requests to web sites."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.cli.commands import Commands, add_command, add_group, report
from webdata_nb.cli.data_dir import default_data_dir
from webdata_nb.cli.output import utc_time
from webdata_nb.errors import InvalidArgument, WebdataError

if TYPE_CHECKING:
    from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet
    from webdata_nb.service.signing.request_signer import SigningKeyFile

# ruff: noqa: PLC0415 - a command imports what it needs: `webdata --help` must not wait for it

RunOnFile = Callable[["SigningKeyFile", argparse.Namespace], None]

_START_HOURS: Final = 24.0
_KEEP_DAYS: Final = 7.0
_MAX_HOURS: Final = 24.0 * 30
_MAX_DAYS: Final = 365.0
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S


def add_commands(commands: Commands) -> None:
    """Add the commands `signing-keys`."""
    text = "Manage the keys that sign a service's requests to web sites."
    group = add_group(commands, "signing-keys", text)
    text = "Create a key; the service signs its requests from its next start on."
    create = _add(group, "create", _create, text)
    create.add_argument(
        "agent",
        metavar="URL",
        help="https address at which the public keys are published, such as https://bot.example.com",
    )
    _add(group, "list", _list, "List the keys, without their secrets.")
    text = "Replace the key by a new one; the service may run meanwhile."
    _add_rotation(_add(group, "rotate", _rotate, text).add_argument)
    text = "Print the directory of the public keys, to publish it as a file."
    _add(group, "directory", _print_directory, text)


def _add(group: Commands, name: str, run: RunOnFile, text: str) -> argparse.ArgumentParser:
    parser = add_command(group, name, functools.partial(_run_on_file, run), text)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--file", type=Path, metavar="FILE", help="file of the keys")
    place.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data directory of the service that has the file (default: that of the mode)",
    )
    parser.add_argument(
        "--mode",
        choices=("local", "team"),
        default="team",
        help="whose default data directory: that of serve --mode team (default), or local",
    )
    return parser


def _add_rotation(add: Callable[..., argparse.Action]) -> None:
    add(
        "--start-in",
        type=float,
        default=_START_HOURS,
        metavar="HOURS",
        help="hours after which the new key signs; it is published at once (default 24)",
    )
    add(
        "--keep",
        type=float,
        default=_KEEP_DAYS,
        metavar="DAYS",
        help="days for which the old key stays published after that (default 7)",
    )
    add("--agent", metavar="URL", help="new address of the published keys")


def _run_on_file(run: RunOnFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.request_signer import KEY_FILE, SigningKeyFile

    path = args.file or (args.data_dir or default_data_dir(args.mode)) / KEY_FILE
    run(SigningKeyFile(path.absolute()), args)


def _create(file: SigningKeyFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import SigningKey, SigningKeySet

    key = SigningKey.generate(starts_at=int(time.time()))
    try:
        file.create(SigningKeySet(_agent(args.agent), (key,)))
    except FileExistsError:
        raise WebdataError(
            f"{file.path} exists; `webdata signing-keys rotate` replaces its key"
        ) from None
    report(f"created the key {key.thumbprint} in {file.path}")


def _list(file: SigningKeyFile, _args: argparse.Namespace) -> None:
    keys, now = _read(file), time.time()
    print(f"{keys.agent}  {file.path}")
    for key in keys.keys:
        print(f"{key.thumbprint}  {_state(keys, key, now)}")


def _rotate(file: SigningKeyFile, args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import MAX_KEYS, SigningKey

    if not 0 <= args.start_in <= _MAX_HOURS:
        raise InvalidArgument(f"--start-in takes hours from 0 to {_MAX_HOURS:g}")
    if not 0 <= args.keep <= _MAX_DAYS:
        raise InvalidArgument(f"--keep takes days from 0 to {_MAX_DAYS:g}")
    agent = None if args.agent is None else _agent(args.agent)
    now = time.time()
    key = SigningKey.generate(starts_at=int(now + args.start_in * _HOUR_S))
    keys = _read(file).rotated(key, now=now, keep_s=int(args.keep * _DAY_S), agent=agent)
    if len(keys.keys) > MAX_KEYS:
        raise WebdataError(f"{MAX_KEYS} keys are published; wait until one of them ends")
    file.replace(keys)
    report(f"created the key {key.thumbprint}, which {_state(keys, key, now)}")


def _print_directory(file: SigningKeyFile, _args: argparse.Namespace) -> None:
    from webdata_nb.service.signing.message_signature import directory_body

    print(directory_body(_read(file), time.time()).decode())


def _read(file: SigningKeyFile) -> SigningKeySet:
    try:
        return file.read()
    except ValueError as error:
        create = "`webdata signing-keys create` makes one"
        advice = f"restore or remove it; then {create}" if file.path.exists() else create
        raise WebdataError(f"{error}; {advice}") from None


def _agent(url: str) -> str:
    from webdata_nb.service.signing.message_signature import check_agent

    try:
        return check_agent(url)
    except ValueError as error:
        suffix = "" if "@" in url else f", not {url[:80]!r}"  # it may hold a password
        raise InvalidArgument(f"{error}{suffix}") from None


def _state(keys: SigningKeySet, key: SigningKey, now: float) -> str:
    end = "" if key.ends_at is None else f", published until {utc_time(key.ends_at)}"
    if key.ends_at is not None and key.ends_at <= now:
        return f"ended {utc_time(key.ends_at)}"
    if key is keys.active(now):
        return f"signs{end}"
    if key.starts_at > now:
        return f"signs from {utc_time(key.starts_at)}{end}"
    return f"signs no more{end}"
