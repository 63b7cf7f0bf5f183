"""Converts the bytes of a fetched page to the formats of the contract."""
