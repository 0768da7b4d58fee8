"""Write `__init__.pyi`, which type checkers read, from the table of public names in `__init__.py`."""

from pathlib import Path

import toolwire

STUB = Path(toolwire.__file__).with_suffix(".pyi")
WIDTH = 100
ALIASED, QUOTED = "{0} as {0}", '"{0}"'
HEAD = "# Made by `make docs` from the table of public names in __init__.py.\n\n"


def stub() -> str:
    """Give the imports that say where each public name comes from, as a checker reads them."""
    homes = {f"toolwire.{home}": names.split() for home, names in toolwire.__dict__["_HOMES"].items()}
    imports = [f"from {home} import ({_listed(homes[home], ALIASED)})\n" for home in sorted(homes)]
    for name, home in sorted(toolwire.__dict__["_DOORS"].items()):
        room, _, module = f"toolwire.{home}".rpartition(".")
        imports.append(f"from {room} import {module} as {name}\n")
    return HEAD + "".join(imports) + f"\n__version__: str\n__all__ = [{_listed(toolwire.__all__, QUOTED)}]\n"


def _listed(names: list[str], form: str) -> str:
    rows: list[str] = []
    row = ""
    for item in (form.format(name) + "," for name in names):
        if len(row) + len(item) > WIDTH:
            rows, row = [*rows, row], ""
        row += f" {item}"
    return "".join(f"\n   {row}" for row in [*rows, row]) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub())
    print(f"wrote {STUB.name}")
