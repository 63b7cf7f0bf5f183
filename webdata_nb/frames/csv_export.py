"""Reads a CSV export of the service and removes the protection against formulas."""

from __future__ import annotations

import warnings
from os import PathLike, fspath

import pandas as pd

from webdata_nb.contract.cells import unescape_formula
from webdata_nb.frames import exports


def read_csv_export(path: str | PathLike[str]) -> pd.DataFrame:
    r"""Read a CSV export of a job, with the original text of each cell.

    The service writes an apostrophe before each cell that a spreadsheet could read as a formula.
    This function removes it.

    Parameters
    ----------
    path
        The downloaded file.

    Returns
    -------
    pandas.DataFrame
        One row per result, in the order of the job. All columns of the file are text; empty cells
        are missing. Lists and objects (`links`, `metadata`, ...) are JSON text.

    Warns
    -----
    UserWarning
        The export is partial: the job had not ended, failed or was cancelled. The file then has
        a column `partial_export`.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is not CSV in UTF-8.

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
    return frame.map(unescape_formula).astype("str").where(frame != "")
