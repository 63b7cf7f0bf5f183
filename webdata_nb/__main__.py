"""`python -m webdata_nb` is the `webdata` command."""

from webdata_nb.cli import main

raise SystemExit(main())
