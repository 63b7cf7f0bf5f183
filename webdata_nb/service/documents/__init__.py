"""Reads documents that are not HTML: PDF, feeds, sitemaps and plain text."""
