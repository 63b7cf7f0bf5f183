"""The HTTP face of the service: a file for each group of the contract's endpoints."""
