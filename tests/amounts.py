"""How much the slow tests do: little in every run, and all of it where TOOLWIRE_TORTURE=full is set."""

import os

FULL: bool = os.environ.get("TOOLWIRE_TORTURE") == "full"
