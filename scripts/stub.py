"""Write what type checkers read: `__init__.pyi` from the table of public names, `quirk_options.py` from `Quirks`."""

import ast
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


QUIRKS = STUB.parent / "encoding" / "quirks.py"
QUIRK_OPTIONS = QUIRKS.with_name("quirk_options.py")
_OPTIONS_HEAD = '''"""The fields of `Quirks` as keyword arguments. Made by `make docs` from quirks.py."""

from typing import TypedDict

from toolwire.wire.names import Grammar


class QuirkOptions(TypedDict, total=False):
    """The fields of `Quirks`, one by one.

    >>> from toolwire import Context, Message, QuirkOptions, Request, dialect
    >>> request = Request(model="m", context=Context(messages=[Message("Hi.")]), max_tokens=9)
    >>> options: QuirkOptions = {"max_tokens_key": "max_tokens"}
    >>> dialect("openai-chat", **options).encode_request(request).body["max_tokens"]
    9
    """

'''


def quirk_options() -> str:
    """Return the module of `QuirkOptions`: each field of `Quirks`, its type, and its sentence with the default."""
    tree = ast.parse(QUIRKS.read_text())
    [quirks] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Quirks"]
    fields = [node for node in quirks.body if isinstance(node, ast.AnnAssign)]
    sentences = [ast.literal_eval(node.value) for node in quirks.body[1:] if isinstance(node, ast.Expr)]
    lines = []
    for field, words in zip(fields, sentences, strict=True):
        default = "None" if field.value is None else ast.unparse(field.value)
        shown = "" if default == "None" else f" Default: `{default}`."
        lines.append(f'    {ast.unparse(field.target)}: {ast.unparse(field.annotation)}\n    """{words}{shown}"""\n')
    return _OPTIONS_HEAD + "".join(lines)


if __name__ == "__main__":
    STUB.write_text(stub())
    QUIRK_OPTIONS.write_text(quirk_options())
    print(f"wrote {STUB.name} and {QUIRK_OPTIONS.name}")
