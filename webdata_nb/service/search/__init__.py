"""Runs searches: providers, the fallback chain, and ranks that never change."""
