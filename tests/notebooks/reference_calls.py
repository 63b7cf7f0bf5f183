"""The calls that every host makes, and the file in which it stores their frames."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from tests.wire_service import KEY
from webdata_nb.toolkit.api import connect

if TYPE_CHECKING:
    import pandas as pd


def frames(url: str) -> list[pd.DataFrame]:
    """Return a frame of each kind, and one of a list, from the service at `url`."""
    with connect(base_url=url, api_key=KEY) as session:
        return [
            session.search_df("gulls", formats=["markdown"], cache=False),
            session.crawl_df("https://site.test/", cache=False),
            session.creatives_df("AR1", cache=False),
            session.search_df(["gulls", "terns"], cache=False),
        ]


def keep(url: str, path: str) -> None:
    """Leave the frames in a file."""
    Path(path).write_bytes(pickle.dumps(frames(url)))
