"""Child processes, cooperative steps and fair scheduling between accounts."""
