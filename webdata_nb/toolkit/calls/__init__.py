"""Runs calls: a source of batches and a sink, in one pipeline."""
