"""Parses HTML pages and extracts their main content, links and metadata."""
