"""Child processes, cooperative computations, and fair scheduling between accounts."""
