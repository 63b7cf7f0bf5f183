"""Programs of the peers, most run by an interpreter that has that peer installed."""
