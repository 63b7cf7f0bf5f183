"""Runs stored requests with the version of the package on `PYTHONPATH`.

`benchmarks.same_rows` starts it with a file of requests. One line of JSON answers each request: for
each of its calls the columns, rows and receipt, or the error. It imports nothing but the package,
and of that only the public names, so that it runs with any version.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

import webdata_nb


def run(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry out one call; return its table and its receipt, or its error."""
    if function == "sleep":  # such as until the pages of a crawl are indexed
        time.sleep(arguments["seconds"])
        return {}
    options = {"cache": False, "progress": False, **_in_its_form(function, arguments)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(webdata_nb, function)(**options)
            answer = _stream(result) if options.get("stream") else _frame(result)
        except Exception as error:  # noqa: BLE001 - an error is an answer, too
            answer = {"error": type(error).__name__, "message": str(error)}
    answer["warnings"] = [str(warning.message) for warning in caught]
    return answer


def _in_its_form(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for the version at hand; earlier ones had an argument for each entry."""
    names = inspect.signature(getattr(webdata_nb, function)).parameters
    if "batch_rows" not in names and "purpose" not in names:
        return arguments
    earlier = dict(arguments)
    if isinstance(earlier.get("rights"), str):
        earlier["purpose"] = earlier.pop("rights")
    if isinstance(earlier.get("as_of"), dict):
        earlier["archive"] = earlier.pop("as_of")["source"]
    if isinstance(earlier.get("since"), dict):
        since = earlier["since"]
        earlier |= {"since": since["base"], "recheck": since["recheck"]}
    if not isinstance(earlier.get("stream", True), bool):
        earlier |= {"stream": True, "batch_rows": earlier["stream"]}
    return earlier


def _frame(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "columns": [[str(name), str(dtype)] for name, dtype in frame.dtypes.items()],
        "rows": [
            dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)
        ],
        "receipt": frame.attrs.get("webdata"),
    }


def _stream(stream: Any) -> dict[str, Any]:
    frames = list(stream)
    rows = [row for frame in frames for row in _frame(frame)["rows"]]
    return {"sizes": [len(frame) for frame in frames], "rows": rows, "receipt": stream.receipt}


def _plain(value: Any) -> Any:
    """Return a value of a cell as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is pd.NA or value is pd.NaT:
        return None
    return dict(value) if hasattr(value, "keys") else str(value)


def main(path: str) -> None:
    """Answer each request of a file with a line."""
    try:
        for request in json.loads(Path(path).read_text("utf-8")):
            answers = [run(*call) for call in request["calls"]]
            print(json.dumps(answers, default=_plain), flush=True)
    finally:
        asyncio.run(_stop())


async def _stop() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webdata_nb", "stop", stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
