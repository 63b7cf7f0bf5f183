"""What a user's schema asks of a page, filled from what the page itself says."""

from __future__ import annotations

from webdata_nb.service.extract.run import Extractor, extractor
from webdata_nb.service.extract.schema import Shape, read_schema
from webdata_nb.service.extract.structured import Extraction, extract_structured
from webdata_nb.service.extract.validation import problems

__all__ = [
    "Extraction",
    "Extractor",
    "Shape",
    "extract_structured",
    "extractor",
    "problems",
    "read_schema",
]
