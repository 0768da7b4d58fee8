"""What stands in the place of a secret: a fixed text, with a name where there is one, never a part of it."""

import re

HIDDEN = "[hidden]"
UNREADABLE = "[hidden:unreadable]"
# From here on a known secret is searched for everywhere; from the first on where it is named for a text.
LONG = 8
SHORTEST = 3
MASK = re.compile(r"\[hidden(?::[^\]\n]{0,40})?\]")
UNFIT = re.compile(r"[^\w -]+")


def mask(name: str = "") -> str:
    """Give what stands for a secret of this name."""
    name = UNFIT.sub("", name)[:40].strip()
    return f"[hidden:{name}]" if name else HIDDEN
