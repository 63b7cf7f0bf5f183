"""Parses a page and finds its main content, links and metadata."""
