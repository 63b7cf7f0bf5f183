"""Validates the requests of stored jobs: an older release may have had wider limits."""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.requests import ExtendedCrawlRequest, SearchRequest
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.store.records import JobRecord

_MAX_PROBLEMS: Final = 3
_Model = TypeVar("_Model", bound=BaseModel)


def crawl_request(job: JobRecord) -> ExtendedCrawlRequest:
    """Return the request of a stored crawl.

    Raises
    ------
    JobFailure
        The request exceeds the limits of this release; the message names the fields.
    """
    return _validate(ExtendedCrawlRequest, job)


def search_request(job: JobRecord) -> SearchRequest:
    """Return the request of a stored search; raises `JobFailure`."""
    return _validate(SearchRequest, job)


def _validate(model: type[_Model], job: JobRecord) -> _Model:
    # The limits protect the whole service, so older jobs are no exception.
    try:
        return model.model_validate(job.request)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
    texts = [
        f"{'.'.join(map(str, problem['loc']))} {plain_message(problem)}"
        for problem in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        texts.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    raise JobFailure(
        "an earlier release accepted the job with more than this one allows; start it anew within "
        f"the limits: {'; '.join(texts)}"
    )
