"""The toolkit's errors: one root, the tree as drawn, whole after a trip between processes."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys

import pytest

from webdata_nb import errors

EXAMPLES: list[errors.WebdataError] = [
    errors.WebdataError("m"),
    errors.InvalidArgument("m"),
    errors.InvalidCall("m"),
    errors.UnknownOption("m"),
    errors.NoReceipt("m"),
    errors.OfflineError("m"),
    errors.NotRecorded("m"),
    errors.MissingExtra("m"),
    errors.OverBudget("m", estimate=3.0, budget=2.0),
    errors.LocalServiceError("m"),
    errors.ConnectionFailed("m"),
    errors.NoWebhook("m"),
    errors.WatchRunning("m"),
    errors.WorkerLost("m"),
    errors.UnknownOutcome("m", idempotency_key="k"),
    errors.BadAnswer("m", field="data.3.rank"),
    errors.ServiceError("m", status=409, detail="d", retry_after=1.0),
    errors.WrongState("m", status=400),
    errors.AuthError("m", status=401),
    errors.PermissionDenied("m", status=403),
    errors.NotFound("m", status=404),
    errors.Expired("m", status=410),
    errors.InvalidRequest("m", status=422, fields=(("query", "wrong"),)),
    errors.NotSupported("m", status=501),
    errors.RateLimited("m", status=429, limit=2, active=2),
    errors.QuotaExhausted("m", status=429),
    errors.ServiceFault("m", status=500),
    errors.JobError("m", job_id="j"),
    errors.JobFailed("j", "no provider"),
    errors.JobCancelled("j", [1]),
    errors.JobTimeout("j", 5.0),
    errors.IncompleteResult(5, 3, why="page 2 is empty"),
]


def tree() -> set[type[errors.WebdataError]]:
    found = {errors.WebdataError}
    while grown := {sub for each in found for sub in each.__subclasses__()} - found:
        found |= grown
    return {each for each in found if each.__module__ == errors.__name__}


def test_the_tree_is_the_drawn_one() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:│   |    )*(?:[├└]── )?)(\w+)", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            drawn[match[2]] = above[depth - 1] if depth else "Exception"
    assert drawn == {each.__name__: each.__bases__[0].__name__ for each in tree()}


def test_every_error_has_an_example() -> None:
    assert {type(each) for each in EXAMPLES} == tree()
    public = {cls for _, cls in inspect.getmembers(errors, inspect.isclass)}
    assert tree() <= public


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_whole(error: errors.WebdataError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_wrong_argument_is_a_value_error() -> None:
    assert issubclass(errors.InvalidArgument, ValueError)


def test_messages_say_what_to_do() -> None:
    assert 'job("j1").df()' in str(errors.JobTimeout("j1", 5))
    assert str(errors.IncompleteResult(None, 3)).startswith("3 of an unknown number of rows")
    assert "3 of 5 rows arrived: page 2" in str(errors.IncompleteResult(5, 3, why="page 2"))


def test_a_cancelled_cell_shows_one_line() -> None:
    code = "from webdata_nb.errors import JobCancelled\nraise JobCancelled('j1')"
    # IPython warns where the shell has another environment switched on.
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert (done.stdout + done.stderr).strip() == "JobCancelled: job j1 was cancelled"
