"""A service's CSV export, read back as it was before its cells were made harmless."""

from __future__ import annotations

import warnings
from os import PathLike, fspath

import pandas as pd

from webdata_nb.contract.cells import restored
from webdata_nb.frames import exports


def read_csv_export(path: str | PathLike[str]) -> pd.DataFrame:
    r"""Read a CSV export of a job, with every cell as the page had it.

    A service writes an apostrophe before a cell that a spreadsheet could take for a formula;
    this takes it off again.

    Parameters
    ----------
    path
        The downloaded file.

    Returns
    -------
    pandas.DataFrame
        One row a result, in the order of the job. Columns are those of the file, all of them
        text; an empty cell is missing. Lists and objects (`links`, `metadata`, ...) are JSON text.

    Warns
    -----
    UserWarning
        The export is partial: its job had not ended, or failed or was cancelled. The column
        `partial_export` says so too.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no CSV in UTF-8.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("export.csv").write_bytes(b"url,title\r\nhttp://a.test/,'=1+1\r\n")
    >>> read_csv_export("export.csv")["title"][0]
    '=1+1'
    """
    frame = pd.read_csv(path, dtype="str", keep_default_na=False, encoding="utf-8")
    if exports.PARTIAL in frame:
        warnings.warn(exports.PARTIAL_WARNING.format(path=fspath(path)), stacklevel=2)
    return frame.map(restored).astype("str").where(frame != "")
