"""`python -m fuel_async`: the command line of `fuel_async.cli`."""

import sys

from fuel_async.cli import main

if __name__ == "__main__":
    sys.exit(main())
