"""Runs `webdata` with deadlines for a loaded machine: of its shutdown, and of connecting to Dask.

python -m tests.patient_service serve ...
"""

from __future__ import annotations

import sys

from webdata_nb.__main__ import main
from webdata_nb.service import server
from webdata_nb.service.job_workers import cluster

server.SHUTDOWN_S = 50.0  # type: ignore[misc]
cluster.CONNECT_S = 60.0  # type: ignore[misc]

if __name__ == "__main__":
    sys.exit(main())
