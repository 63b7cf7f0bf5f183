"""`python -m webdata_nb` is the `webdata` command."""

from webdata_nb.cli.main import main

raise SystemExit(main())
