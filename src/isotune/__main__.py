"""`python -m isotune` is `isotune`."""

import sys

from isotune.cli import main

sys.exit(main())
