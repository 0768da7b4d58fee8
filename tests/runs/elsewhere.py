"""The program `toolwire` as on another machine: nobody here can see that it is dead, but by its lease."""

import os
import sys

from toolwire.cli import main
from toolwire.runs import owners

if __name__ == "__main__":
    machine = f"machine {os.getpid()}"
    owners._machine = lambda: machine
    sys.exit(main(sys.argv[1:]))
