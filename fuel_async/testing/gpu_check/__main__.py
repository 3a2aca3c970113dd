"""`python -m fuel_async.testing.gpu_check`."""

from fuel_async.testing.gpu_check.command import main

if __name__ == "__main__":
    raise SystemExit(main())
