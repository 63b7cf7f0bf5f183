"""A query becomes ranked rows: providers, the fallback chain, ranks that stay."""
