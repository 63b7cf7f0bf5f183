"""What operations cost, and how credits are kept: pure, below the store."""
