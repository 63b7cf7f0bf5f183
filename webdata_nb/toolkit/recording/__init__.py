"""Records the calls of a notebook into files and replays them without a service."""
