"""Records a notebook's calls into a folder, and replays them without a service."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from webdata_nb.errors import InvalidArgument
from webdata_nb.recording import cassette
from webdata_nb.settings import options

Mode = Literal["record", "replay"]
_OTHER: Final[dict[Mode, Mode]] = {"record": "replay", "replay": "record"}


class Tape:
    """A recording under way; `stop` or the end of a `with` block ends it."""

    def __init__(self, mode: Mode, folder: Path) -> None:
        self._mode: Mode = mode
        self._folder = folder
        self._before: Path | str | None = getattr(options, mode)
        cassette.HEADS.rewind(folder)
        setattr(options, mode, folder)

    def stop(self) -> None:
        """Go on as before."""
        setattr(options, self._mode, self._before)

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


def record(folder: str | Path) -> Tape:
    """Store the answer of every later call in a folder, for `replay`.

    Holds from now on, in all threads of this process, to the end of a `with` block or to
    `stop()`; `options.record` and WEBDATA_RECORD do the same. Recorded are the frames of all
    functions, listings such as `jobs_df` among them, streams that were read to their end, and jobs
    with the rows that were collected of them. Answers of the cache are recorded as well. A call
    whose job did not end well is not recorded.

    Parameters
    ----------
    folder
        Made where it is missing. A question that is asked again replaces its earlier recording.

    Returns
    -------
    Tape
        To be used in a `with` statement, or kept for its `stop()`.

    Raises
    ------
    InvalidArgument
        A folder that cannot be one, or a replay is under way.

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
    return _tape("record", folder)


def replay(folder: str | Path) -> Tape:
    """Answer every later call from a recording, without a service or a key.

    Holds as `record` does; `options.replay` and WEBDATA_REPLAY do the same. The n-th time a call
    is made it gets the n-th answer that was recorded. A call that was not recorded raises
    NotRecorded, as does what acts on a job (`cancel`, `retry`, `events` and the service's own
    exports); nothing is ever sent.

    Parameters
    ----------
    folder
        What `record` was given.

    Returns
    -------
    Tape
        To be used in a `with` statement, or kept for its `stop()`.

    Raises
    ------
    InvalidArgument
        There is no such folder, or a recording is under way.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, replay(folder):
    ...     search_df("never asked")
    Traceback (most recent call last):
    ...
    webdata_nb.errors.NotRecorded: ...
    """
    made = _path(folder)
    if not made.is_dir():
        raise InvalidArgument("folder must be a directory that record() has filled")
    return _tape("replay", made)


def _tape(mode: Mode, folder: str | Path) -> Tape:
    if getattr(options, _OTHER[mode]) is not None:
        raise InvalidArgument(f"{mode} cannot begin while a {_OTHER[mode]} is under way")
    return Tape(mode, _path(folder))


def _path(folder: object) -> Path:
    if not isinstance(folder, str | Path) or not str(folder):
        raise InvalidArgument("folder must be a path, as a string or a pathlib.Path")
    path = Path(folder).expanduser().absolute()
    if path.is_file():
        raise InvalidArgument("folder must be a directory")
    return path
