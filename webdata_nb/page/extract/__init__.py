"""Fills a schema, or answers a prompt, from what a page declares or by a language model."""
