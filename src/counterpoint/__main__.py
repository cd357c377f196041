"""``python -m counterpoint``: the command line."""

import sys

from counterpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
