"""The sockets of a service: what is said when an address is not available."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from webdata_nb.service.server import CannotListen, listen


def test_port_in_use_is_named_with_its_option() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(CannotListen) as error:
            listen("127.0.0.1", port, option="--metrics")
    assert str(error.value) == (
        f"cannot listen on 127.0.0.1:{port}: in use by another process; stop it, or choose another "
        "port with --metrics"
    )


@pytest.mark.parametrize(
    ("host", "named", "reason"),
    [
        ("192.0.2.1", "192.0.2.1:8000", "this machine does not have that address"),
        ("2001:db8::1", "[2001:db8::1]:8000", "this machine does not have that address"),
        ("nowhere.invalid", "nowhere.invalid:8000", "this machine cannot resolve the host name"),
    ],
)
def test_unavailable_address_is_named(host: str, named: str, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason) as error:
        listen(host, 8000)
    assert str(error.value).startswith(f"cannot listen on {named}: ")
    assert str(error.value).endswith("--port") or "--port takes" in str(error.value)


def test_port_that_is_not_permitted_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:  # what the kernel says to a user; tests may run as root
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(CannotListen) as error:
        listen("0.0.0.0", 80)
    assert str(error.value) == (
        "cannot listen on 0.0.0.0:80: this user may not listen on that port (those below 1024 need "
        "the capability CAP_NET_BIND_SERVICE); choose another one with --port"
    )
