"""Builds the documentation site: generated pages, and docstrings in Markdown."""
