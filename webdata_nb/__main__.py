"""Runs the `webdata` command for `python -m webdata_nb`."""

from webdata_nb.cli.main import main

raise SystemExit(main())
