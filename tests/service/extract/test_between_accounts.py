"""What the extractions of one account do to the model that all accounts share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.service.extract.stub_model import StubModel, always_fail
from tests.site.server import Site
from webdata_nb.page.errors import ExtractError
from webdata_nb.service.models.chat import Model, ModelClient, ModelLimits, ModelQueues
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher

MODEL_MESSAGES = [
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "[page 1]\ncolour: red\n[end of page 1]"},
]
SCHEMA = {"type": "object", "properties": {}}


class SharedQueues:
    """One stub, asked by several accounts through one set of queues."""

    def __init__(self, stub: StubModel, fetcher: Fetcher) -> None:
        self.stub, self.fetcher, self.queues = (
            stub,
            fetcher,
            ModelQueues(ModelLimits(max_concurrent=1)),
        )

    def model(self, name: str = "m") -> Model:
        return Model("vllm", name, self.stub.url, "k", 8192, 30.0, "json_schema")

    async def response_format_for(self, account: str, model: str = "m") -> str:
        chosen = self.model(model)
        with on_behalf_of(account):
            _, response_format = await ModelClient(chosen, self.fetcher, self.queues).ask(
                MODEL_MESSAGES, SCHEMA
            )
        return response_format


@pytest.fixture
async def shared(site: Site) -> AsyncIterator[SharedQueues]:
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        yield SharedQueues(StubModel(site), fetcher)


async def test_a_schema_that_is_refused_changes_nobody_elses_questions(
    shared: SharedQueues,
) -> None:
    shared.stub.supported_formats = ("json_object",)
    assert await shared.response_format_for("alice") == "json_object"
    shared.stub.supported_formats = ("json_schema", "json_object")
    assert await shared.response_format_for("alice") == "json_object"
    assert await shared.response_format_for("bob") == "json_schema"


async def test_a_model_that_the_key_does_not_open_closes_no_other(shared: SharedQueues) -> None:
    shared.stub.then(always_fail(403))
    with pytest.raises(ExtractError, match="key"):
        await shared.response_format_for("alice", "secret-model")
    with pytest.raises(ExtractError, match="key"):
        await shared.response_format_for("alice", "secret-model")
    assert len(shared.stub.requests) == 1
    assert await shared.response_format_for("bob") == "json_schema"


async def test_failures_of_one_accounts_questions_delay_no_other(shared: SharedQueues) -> None:
    shared.stub.then(always_fail(500), always_fail(503, **{"Retry-After": "1"}))
    assert await shared.response_format_for("alice") == "json_schema"
    queue = shared.queues.queue(shared.model())
    assert queue.account_pauses.keys() == {"alice"}
    # The second reply asked for a pause, which applies to all accounts.
    assert 0 < queue.opens_at("bob") == queue.paused_until < queue.opens_at("alice") + 1
