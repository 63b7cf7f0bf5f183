"""Base models of replies, and the type of their rows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


def _skip_copy(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Accept decoded rows without copying them; a reply may hold a thousand pages."""
    if type(value) is list and all(type(row) is dict for row in value):
        return value
    return validate(value)


Rows = Annotated[list[dict[str, Any]], WrapValidator(_skip_copy)]


class RowsOf:
    """Annotates `Rows` with the model that the JSON schema shows for each row."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "array", "items": handler(self._model.__pydantic_core_schema__)}


class Reply(BaseModel):
    """A reply; unknown fields are kept in `model_extra`."""

    # Built at the first use: a process uses few of the replies, and building all takes long.
    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    def stated(self, name: str) -> Any:
        """Return a field of the reply; None if the service left it out."""
        return getattr(self, name) if name in self.model_fields_set else None


class SuccessReply(Reply):
    """A reply with the contract's `success` field."""

    success: bool = Field(
        default=True,
        description="Whether the request was accepted; always true in a reply with status 200.",
    )
