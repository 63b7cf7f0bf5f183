"""Detects document types and parses documents other than HTML: PDF, feeds, sitemaps, text."""
