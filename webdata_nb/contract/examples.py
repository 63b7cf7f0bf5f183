"""Example request bodies for the OpenAPI document; a test validates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WEBHOOK: Final = {
    "webhook_url": "https://hooks.example.com/webdata",
    "webhook_secret": "a long random text",
}

EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "startSearch": {
        "shortest": {"query": "northern lights"},
        "discovery": {"query": "northern lights", "num_results": 20, "formats": []},
        "extraction": {
            "query": "northern lights forecast",
            "engine": "engine_two",
            "country": "no",
            "formats": ["markdown", "links"],
            "extract": {"schema": {"type": "object", "properties": {"title": {"type": "string"}}}},
            **_WEBHOOK,
        },
    },
    "startCrawl": {
        "shortest": {"url": "https://example.com/"},
        "part of a site": {
            "url": "https://example.com/docs/",
            "max_pages": 50,
            "max_depth": 3,
            "crawl_strategy": "bff",
            "include_paths": ["/docs/**"],
            "scrape_options": {"formats": ["markdown", "links"], "timeout": 15000},
            **_WEBHOOK,
        },
    },
    "startExtendedCrawl": {
        "a large site": {
            "url": "https://example.com/",
            "max_pages": 50_000,
            "sitemap": True,
            "scrape_options": {"formats": ["markdown"]},
        },
        "a list of pages": {
            "urls": ["https://example.com/docs/", "https://example.com/about"],
        },
        "the pages that changed": {
            "url": "https://example.com/docs/",
            "base": {"job_id": "5f0f1f8a-2a4f-4d0e-9a55-3f1f5f6f7a01", "recheck": 0.02},
        },
        "the documentation in June 2024": {
            "url": "https://example.com/docs/",
            "source": {"web_archive": {"as_of": "2024-06-01", "max_distance": 14}},
            "scrape_options": {"formats": ["markdown"]},
        },
    },
    "listCaptures": {
        "of a page": {"url": "https://example.com/", "start": "2023-01-01", "end": "2024-01-01"},
        "of a part of a site": {
            "url": "https://example.com/docs/",
            "source": "commoncrawl",
            "match": "prefix",
        },
    },
    "verifyValues": {
        "one page": {
            "pages": [
                {
                    "job_id": "6b0e5d0c-3c55-4d4c-9d65-2e1f6a1f0b7e",
                    "url": "https://example.com/kettle",
                    "extract": {"name": "Copper kettle", "price": 34.5},
                }
            ]
        },
    },
    "cancelJob": {"nothing": {}},
    "retryJob": {"nothing": {}},
    "listCreatives": {
        "by id": {"advertiser_id": "AR17828074650563772417", "region": "DE", "limit": 10},
        "by page": {
            "url": "https://adstransparency.google.com/advertiser/AR17828074650563772417",
            "date_range": "last_30_days",
        },
    },
    "testWebhook": {"signed": _WEBHOOK},
}
