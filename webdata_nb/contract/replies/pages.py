"""Models of the content of a scraped page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, create_model

from webdata_nb.contract.choices import FORMAT_VALUES, ValueType
from webdata_nb.contract.replies.base import Reply

_TYPES: Final[dict[ValueType, Any]] = {
    "text": str,
    "png": str,
    "json": dict[str, Any],
    "texts": list[str],
    "items": list[dict[str, Any]],
    "integer": int,
    "number": float,
    "boolean": bool,
}

if TYPE_CHECKING:
    _Formats = Reply
else:
    _Formats = create_model(
        "_Formats",
        __base__=Reply,
        **{
            name: (_TYPES[value.type] | None, Field(default=None, description=value.description))
            for name, value in FORMAT_VALUES.items()
        },
    )


class PageFields(_Formats):
    """The content of a scraped page, each field only if its format was requested."""

    extract: Any = Field(default=None, description="Result of the requested extraction.")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Title, description, language and further metadata."
    )
