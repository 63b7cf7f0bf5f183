"""Prices and balances in credits: pure functions, below the store."""
