"""What operations cost."""
