"""Writes the content of a page as GitHub-flavoured Markdown."""
