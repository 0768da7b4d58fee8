"""`python -m toolwire` is the `toolwire` command."""

import sys

from toolwire.cli import main

sys.exit(main())
