"""Kills kernels and Dask workers during a batch of 100,000 searches, whose parts are in S3.

The processes are those of `benchmarks.dask_batches`, and an S3 server on loopback. A kernel, in a
process of its own, calls `search_df(queries, executor=client, out="s3://...", lazy=True)`. A worker
and then the kernel are killed at random moments, twice; the nanny starts another worker. The third
kernel is left alone.

Checked: each row once, in the order of the queries; the credits of one charge per query; `len` and
dtypes of the lazy frame against those of a call without Dask. Printed with the limits: how much the
scheduler's memory grew (200 MB), and the seconds of the repeated call with all parts there (2 s).

Run it from the checkout, with the `test` extra; it takes about 45 minutes::

    python -m benchmarks.dask_batch_kills
    python -m benchmarks.dask_batch_kills --inputs 2000
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import fsspec  # type: ignore[import-untyped]
import pandas as pd

from benchmarks.dask_batches import SEARCH, BatchCluster, batch_cluster, errors_of, queries_of
from tests import object_store
from webdata_nb import connect
from webdata_nb.toolkit.api import Session

INPUTS: Final = 100_000
KILLS: Final = 2
GROWTH_MB: Final = 200
REPEAT_S: Final = 2.0
_NAME: Final = "batch"
# Searches that run before, to learn the charge of one.
_PROBE: Final = 20
_DEADLINE_S: Final = 4 * 3600.0
_MB: Final = 1_000_000
# What the notebook runs.
_KERNEL: Final = """
import sys
from distributed import Client
from benchmarks.dask_batches import SEARCH, queries_of
from webdata_nb import connect, search_df

if __name__ == "__main__":
    address, url, out, name, count = sys.argv[1:]
    connect(base_url=url)
    search_df(queries_of(name, int(count)), executor=Client(address), out=out, lazy=True, **SEARCH)
"""


class MemoryWatch:
    """Samples the scheduler's memory in a thread; `grown` is the most above the first sample."""

    def __init__(self, cluster: BatchCluster) -> None:
        self._cluster, self._is_over = cluster, threading.Event()
        self._first = self._most = cluster.scheduler_bytes()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def grown(self) -> int:
        """The growth in bytes."""
        return self._most - self._first

    def _sample(self) -> None:
        while not self._is_over.wait(0.5):
            self._most = max(self._most, self._cluster.scheduler_bytes())


def run_kernels(
    cluster: BatchCluster, out: str, inputs: int, kills: int, chance: random.Random
) -> None:
    """Run the batch to its end; kill a worker and the kernel `kills` times before."""
    environ = os.environ | {"WEBDATA_API_KEY": cluster.service.key}
    arguments = [cluster.scheduler.address, cluster.service.url, out, _NAME, str(inputs)]
    command = [sys.executable, "-c", _KERNEL, *arguments]
    for number in range(kills):
        with subprocess.Popen(command, env=environ) as kernel:
            parts = _parts(out) + chance.randrange(1, max(2, inputs // 400))
            _wait_until(lambda parts=parts: _parts(out) >= parts, kernel)  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 3.0))
            chance.choice(cluster.workers).kill_worker()
            time.sleep(chance.uniform(0.0, 10.0))
            is_running = kernel.poll() is None
            kernel.kill()
        print(f"kill {number + 1}: {_parts(out)} parts, kernel running: {is_running}", flush=True)
    subprocess.run(command, env=environ, check=True, timeout=_DEADLINE_S)


def check(session: Session, out: str, inputs: int, dtypes: pd.Series) -> list[str]:
    """Return what is wrong with the finished batch; `dtypes` are those of a call without Dask."""
    queries = queries_of(_NAME, inputs)
    started_at = time.perf_counter()
    lazy = session.search_df(queries, out=out, lazy=True, **SEARCH)
    repeat_s = time.perf_counter() - started_at
    print(f"repeated call with all parts there: {repeat_s:.2f} s, at most {REPEAT_S:g} s")
    length = len(lazy)
    print(f"rows of the lazy frame: {length}")
    df = lazy.compute(scheduler="threads")
    errors = errors_of(df, queries)
    if length != len(df):
        errors.append(f"len of the lazy frame is {length}, not {len(df)}")
    if not lazy.dtypes.equals(dtypes):
        errors.append("the dtypes of the lazy frame differ")
    if repeat_s > REPEAT_S:
        errors.append(f"the repeated call took {repeat_s:.2f} s")
    return errors


def _parts(out: str) -> int:
    system = fsspec.filesystem("s3")
    system.invalidate_cache()
    try:
        names = system.ls(out, detail=False)
    except FileNotFoundError:
        return 0
    return sum(name.rpartition("/")[2].startswith("part-") for name in names)


def _wait_until(condition: Callable[[], bool], kernel: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        if kernel.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the kernel ended with {kernel.poll()} before it could be killed")
        time.sleep(0.2)


def main() -> int:
    """Print the figures; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        os.environ["WEBDATA_HOME"] = folder
        bucket = stack.enter_context(object_store.running(home / "s3.log"))
        cluster = stack.enter_context(batch_cluster(home))
        url, key = cluster.service.url, cluster.service.key
        session = stack.enter_context(connect(base_url=url, api_key=key))
        before = session.search_df(queries_of("before", _PROBE), cache=False, **SEARCH)
        per_query = cluster.credits() / _PROBE
        out, started_at = f"{bucket}/queries", time.perf_counter()
        with MemoryWatch(cluster) as memory:
            chance = random.Random(options.seed)
            run_kernels(cluster, out, options.inputs, options.kills, chance)
        seconds = time.perf_counter() - started_at
        charged = cluster.credits() - per_query * _PROBE
        errors = check(session, out, options.inputs, before.dtypes)
    if charged != per_query * options.inputs:
        errors.append(f"{charged:g} credits, not {per_query * options.inputs:g}")
    print(f"{options.inputs} searches in {seconds:.0f} s, {charged:g} credits")
    grown = memory.grown / _MB
    print(f"the scheduler's memory grew by {grown:.0f} MB, at most {GROWTH_MB} MB")
    if grown > GROWTH_MB:
        errors.append("the scheduler's memory grew too much")
    print("exact" if not errors else f"WRONG: {len(errors)}", *errors, sep="\n")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
