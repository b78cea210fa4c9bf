"""`python -m xjudge` is the command `xjudge`."""

from xjudge.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
