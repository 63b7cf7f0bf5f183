"""Runs the calls of the table functions: cached, for several inputs, in batches, on executors."""
