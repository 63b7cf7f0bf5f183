"""The requests of stored jobs, which an earlier release may have accepted within wider limits."""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.store.records import Job

_MOST_TOLD: Final = 3
_Model = TypeVar("_Model", bound=BaseModel)


def crawl_request(job: Job) -> CrawlRequest:
    """Return what a stored crawl asks for.

    Raises
    ------
    JobFailed
        It is more than this release allows; the text names the fields.
    """
    return _read(CrawlRequest, job)


def search_request(job: Job) -> SearchRequest:
    """Do the same of a search."""
    return _read(SearchRequest, job)


def _read(model: type[_Model], job: Job) -> _Model:
    # The limits guard the service as a whole, so jobs from before them are no exception.
    try:
        return model.model_validate(job.request)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
    told = [
        f"{'.'.join(map(str, each['loc']))} {plain_message(each)}" for each in problems[:_MOST_TOLD]
    ]
    if len(problems) > _MOST_TOLD:
        told.append(f"and {len(problems) - _MOST_TOLD} more")
    raise JobFailed(
        "an earlier release accepted the job with more than this one allows; start it anew within "
        f"the limits: {'; '.join(told)}"
    )
