"""Asks language models for the data of pages."""
