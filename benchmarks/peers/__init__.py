"""Programs of the peers, each run by an interpreter that has that peer installed."""
