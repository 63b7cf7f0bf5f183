"""HTTP routes of the service, one module for each group of endpoints."""
