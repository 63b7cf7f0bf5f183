"""Runs functions on the workers of a Dask cluster.

`distributed` is imported only by calls that use it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from webdata_nb.errors import ConnectionFailed, InvalidArgument, MissingExtra, WorkerLost

if TYPE_CHECKING:
    from distributed import Client

    DaskClient: TypeAlias = Client

# ruff: noqa: PLC0415 - distributed takes a second to import

T = TypeVar("T")

NAME: Final = "dask"
CONNECT_S: Final = 10.0
# A worker imports this package for the first answer.
ANSWER_S: Final = 60.0
NO_WORKER_S: Final = 120.0
_CHECK_S: Final = 10.0
_WAIT_FOR_EVENT_S: Final = 1.0
# Packages whose versions must be equal in the notebook, the scheduler and the workers.
_EQUAL: Final = ("dask", "distributed")


class DaskExecutor:
    """The workers of one cluster, and the cancellation of one call.

    `executor` is a client, or `"dask"` for that of this process. Methods that block must not be
    called on an event loop; `check` comes first.
    """

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._event_name = f"webdata-cancel-{uuid.uuid4().hex}"

    @functools.cached_property
    def _client(self) -> Any:  # most methods of a client have no types
        client = _current_client() if self._executor == NAME else self._executor
        if client.asynchronous:
            raise InvalidArgument(
                "executor must be a Dask client without asynchronous=True, which async functions "
                "take as well"
            )
        return client

    @functools.cached_property
    def _pool(self) -> concurrent.futures.Executor:
        pool: concurrent.futures.Executor = self._client.get_executor(pure=False)
        return pool

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        return str(self._client.scheduler.address) if self._client.scheduler else "?"

    def check(self) -> None:
        """Check that the scheduler answers, and that its workers have the versions of this process.

        Raises
        ------
        MissingExtra
            Dask is not installed.
        InvalidArgument
            There is no client, it is an asynchronous one, or versions differ.
        ConnectionFailed
            The scheduler does not answer in time.
        """
        if self._client.status != "running":
            raise ConnectionFailed(
                f"executor: the Dask client is {self._client.status}, not connected to a "
                "scheduler: create a new Client"
            )
        versions = self._bounded(self._client.get_versions)
        if problem := version_problem(versions):
            raise InvalidArgument(f"executor: {problem}")

    def threads(self) -> int:
        """Return the number of threads of all workers."""
        return sum(self._client.nthreads().values())

    def run_on_each_worker(self, function: Callable[..., T], *args: object) -> dict[str, T]:
        """Return the results of a function, by the address of the worker.

        Raises
        ------
        ConnectionFailed
            Workers do not answer in time.
        WorkerLost
            The function cannot run on a worker.
        """
        results = self._bounded(lambda: self._client.run(function, *args, on_error="return"))
        for address, result in results.items():
            if isinstance(result, BaseException):
                raise WorkerLost(
                    f"executor: the Dask worker {address} cannot run partitions: "
                    f"{type(result).__name__}: {result}; it needs the same version of webdata_nb"
                )
        return dict(results)

    async def submit(self, function: Callable[..., T], *args: object) -> T:
        """Return the result of `function(*args, is_cancelled)`, which runs on a worker.

        After the death of a worker, Dask runs the function again on another one.

        Raises
        ------
        WorkerLost
            Several workers died while they ran it, or the cluster has lost all of them.
        ConnectionFailed
            The scheduler was lost.
        """
        # The scheduler unpickles tasks too; as bytes they make it import nothing.
        task = pickle.dumps((function, args))
        future = self._pool.submit(_run_cancellable, task, self._event_name)
        pending: asyncio.Future[T] = asyncio.wrap_future(future)
        seen_at = time.monotonic()
        try:
            while not (await asyncio.wait([pending], timeout=_CHECK_S))[0]:
                if await asyncio.to_thread(self._has_workers):
                    seen_at = time.monotonic()
                elif time.monotonic() - seen_at > NO_WORKER_S:
                    raise self._lost()
            from distributed import KilledWorker
            from distributed.client import FutureCancelledError

            try:
                return pending.result()
            except KilledWorker:
                raise WorkerLost(
                    "several Dask workers died while they ran one partition; finished parts are "
                    "kept: repeat the call, with a smaller partition= if the workers ran out of "
                    "memory"
                ) from None
            except (asyncio.CancelledError, FutureCancelledError):
                raise self._lost() from None
        finally:
            future.cancel()

    def cancel(self) -> None:
        """Tell every running function of this call to stop."""
        from distributed import Event

        event: Any = Event
        self._bounded(event(self._event_name, client=self._client).set)

    def _has_workers(self) -> bool:
        if self._client.status != "running":
            return False
        try:
            return bool(self._client.nthreads())
        except Exception:  # noqa: BLE001 - whatever it is, no worker was seen
            return False

    def _lost(self) -> ConnectionFailed | WorkerLost:
        if self._client.status == "running":
            return WorkerLost(
                f"the Dask cluster at {self.address} has had no worker for {NO_WORKER_S:g} s; "
                "finished parts are kept: repeat the call when it has some"
            )
        return ConnectionFailed(
            f"the Dask scheduler at {self.address} was lost; finished parts are kept: repeat the "
            "call with a new Client"
        )

    def _bounded(self, call: Callable[[], T]) -> T:
        """Return the result of a blocking call of the client, within a deadline."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        thread = threading.Thread(target=_complete, args=(future, call), daemon=True)
        thread.start()
        try:
            return future.result(ANSWER_S)
        except (TimeoutError, OSError) as error:
            raise ConnectionFailed(
                f"the Dask scheduler at {self.address} gave no answer within {ANSWER_S:g} s "
                f"({type(error).__name__})"
            ) from None


def _complete(future: concurrent.futures.Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
        future.set_exception(error)


def _current_client() -> Any:
    try:
        import dask
        import distributed
    except ImportError:
        raise MissingExtra(
            "executor='dask' needs dask.distributed, which is not installed: "
            "pip install 'webdata_nb[dask]'"
        ) from None
    client_class: Any = distributed.Client
    try:
        return client_class.current()
    except ValueError:
        pass
    address = dask.config.get("scheduler-address", None)
    if address is None:
        raise InvalidArgument(
            "executor='dask' needs a Dask client in this process, such as Client(...) of "
            "dask.distributed, or the variable DASK_SCHEDULER_ADDRESS"
        )
    try:
        return client_class(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            f"no Dask scheduler answers at {address} (DASK_SCHEDULER_ADDRESS) within "
            f"{CONNECT_S:g} s: {type(error).__name__}"
        ) from None


def version_problem(versions: Mapping[str, Any]) -> str | None:
    """Return a sentence about versions that differ from those of this process; None where none do.

    `versions` is the reply of `Client.get_versions`.
    """
    own_packages = versions["client"]
    others = {"the scheduler": versions["scheduler"]}
    others |= {f"the worker {name}": each for name, each in versions["workers"].items()}
    for name, packages in others.items():
        if packages is None:
            continue
        for package in ("python", *_EQUAL):
            own_version, other_version = (
                ".".join(str(each["host"]["python"]).split(".")[:2])
                if package == "python"
                else str(each["packages"].get(package))
                for each in (own_packages, packages)
            )
            if own_version != other_version:
                return (
                    f"{name} has {package} {other_version} and this notebook {own_version}: "
                    "install the same version on both sides"
                )
    return None


def _run_cancellable(task: bytes, event_name: str) -> Any:
    """Run a pickled function, with one more argument: a function that waits for Cancel."""
    from distributed import Event, get_client

    function, args = pickle.loads(task)  # noqa: S301 - who sends tasks can run code anyway
    event_class: Any = Event
    event = event_class(event_name, client=get_client())

    def is_cancelled() -> bool:
        try:
            return bool(event.wait(timeout=_WAIT_FOR_EVENT_S))
        except Exception:  # noqa: BLE001 - a worker without its scheduler ends by itself
            time.sleep(_WAIT_FOR_EVENT_S)
            return False

    return function(*args, is_cancelled)
