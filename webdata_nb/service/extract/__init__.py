"""What a user's schema or prompt asks of a page: filled from what it declares, or by a model."""

from __future__ import annotations

from webdata_nb.service.extract.extraction import EXTRACT_S, Extractions, Extractor, model_access
from webdata_nb.service.extract.model_endpoint import Bounds, Lines
from webdata_nb.service.extract.schema import Shape, read_schema
from webdata_nb.service.extract.structured import Extraction, extract_structured
from webdata_nb.service.extract.validation import problems

__all__ = [
    "EXTRACT_S",
    "Bounds",
    "Extraction",
    "Extractions",
    "Extractor",
    "Lines",
    "Shape",
    "extract_structured",
    "model_access",
    "problems",
    "read_schema",
]
