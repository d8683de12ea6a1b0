"""`python -m isotune` does the same as `isotune`."""

import sys

from isotune.cli import main

sys.exit(main())
