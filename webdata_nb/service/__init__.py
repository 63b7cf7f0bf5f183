"""The service: the whole HTTP contract, on this machine or for a team."""
