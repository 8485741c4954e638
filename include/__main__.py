"""`python -m include` is `lyrebird`."""

from __future__ import annotations

import sys

from include.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
