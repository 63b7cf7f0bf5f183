"""Public context managers that record calls into a folder and replay them without a service."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import options
from webdata_nb.toolkit.recording import cassette
from webdata_nb.toolkit.requests.arguments import absolute_path

RecordingMode = Literal["record", "replay"]
_OPPOSITE: Final[dict[RecordingMode, RecordingMode]] = {"record": "replay", "replay": "record"}


class Recording:
    """An active recording or replay; `stop` or the end of a `with` block ends it."""

    def __init__(self, mode: RecordingMode, folder: Path) -> None:
        self._mode: RecordingMode = mode
        self._folder = folder
        self._previous: Path | str | None = getattr(options, mode)
        cassette.POSITIONS.rewind(folder)
        setattr(options, mode, folder)

    def stop(self) -> None:
        """End it and restore the previous setting."""
        setattr(options, self._mode, self._previous)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"{self._mode}({str(self._folder)!r})"


def record(folder: str | Path) -> Recording:
    """Record the result of every later call in a folder, for `replay`.

    Applies to all threads of this process until the end of a `with` block or until `stop()`;
    `options.record` and WEBDATA_RECORD do the same. It records the frames of all functions,
    including listings such as `jobs_df`, streams that were read to their end, and jobs with the
    rows that were collected. Cached results are recorded as well. A call whose job failed or was
    cancelled is not recorded.

    Parameters
    ----------
    folder
        Created where it is missing. A repeated request replaces its earlier recording.

    Returns
    -------
    Recording
        Use it in a `with` statement, or call its `stop()`.

    Raises
    ------
    InvalidArgument
        The folder is not a valid path, or a replay is active.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with record(folder):
    ...         first = search_df("aurora forecast", formats=[])
    ...     with replay(folder):
    ...         search_df("aurora forecast", formats=[]).equals(first)
    True
    """
    return _start("record", _path(folder))


def replay(folder: str | Path) -> Recording:
    """Answer every later call from a recording, without a service or a key.

    Applies as `record` does; `options.replay` and WEBDATA_REPLAY do the same. The n-th call with
    the same arguments gets the n-th recorded result. A call that was not recorded raises
    NotRecorded, and so do actions on a job (`cancel`, `retry`, `events` and the service's own
    exports). No request is sent.

    Parameters
    ----------
    folder
        The folder that was given to `record`.

    Returns
    -------
    Recording
        Use it in a `with` statement, or call its `stop()`.

    Raises
    ------
    InvalidArgument
        The folder does not exist, or a recording is active.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, replay(folder):
    ...     search_df("never asked")
    Traceback (most recent call last):
    ...
    webdata_nb.errors.NotRecorded: ...
    """
    path = _path(folder)
    if not path.is_dir():
        raise InvalidArgument(
            f"folder must be a directory that record() has filled; {path} is none"
        )
    return _start("replay", path)


def _start(mode: RecordingMode, folder: Path) -> Recording:
    if getattr(options, _OPPOSITE[mode]) is not None:
        raise InvalidArgument(f"{mode} cannot start while a {_OPPOSITE[mode]} is active")
    return Recording(mode, folder)


def _path(folder: object) -> Path:
    path = absolute_path("folder", folder)
    if path.is_file():
        raise InvalidArgument(f"folder must be a directory; {path} is a file")
    return path
