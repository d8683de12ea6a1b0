"""`python -m isotune` does the same as `isotune`."""

import signal
import sys

# Ctrl-C may come before `main` listens to it.
try:
    from isotune.cli import main

    code = main()
except KeyboardInterrupt:
    code = 128 + signal.SIGINT
sys.exit(code)
