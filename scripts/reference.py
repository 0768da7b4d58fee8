"""Write the reference: docs/public-names.md, docs/names/, docs/reference/, and the tables of docs/reference.md.

Rule: sentences are those of docstrings, and signatures those of the code. None is written by hand.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

import toolwire
from toolwire.encoding import severities

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- made by `make docs` from the code -->\n", "<!-- end of what `make docs` makes -->\n"
# Each page of `docs/names/`, and the modules whose public names it has. The longest name of a module counts.
GROUPS = (
    (
        "clients",
        "Clients and conversations",
        "Ask a model, run a conversation with tools, and read what it cost.",
        ("client", "loop", "aio"),
    ),
    (
        "settings",
        "Settings and providers",
        "The types of the settings, the servers that toolwire knows, their limits and their models.",
        ("client.settings", "client.exchange", "providers", "catalogue", "wire.transport"),
    ),
    (
        "tools",
        "Tools and resolvers",
        "Declare tools, compose them, approve calls and run them.",
        ("resolvers", "codetools", "waiting", "declarations", "mcp", "tool_calls"),
    ),
    (
        "messages",
        "Requests, messages, responses",
        "The canonical model: what every wire is decoded to.",
        ("types",),
    ),
    (
        "events",
        "Events of a stream",
        "What a decoder of a stream returns, and how events become a response.",
        ("types.events", "streams", "wire"),
    ),
    (
        "wires",
        "Wires and translation",
        "Decode and encode the five wires, translate between them, and parse calls in text.",
        ("dialects", "encoding", "translation", "translate", "types.encoded", "schema", "text", "text_tagged"),
    ),
    ("errors", "Errors", "The exceptions that programs catch by name.", ("errors", "client.failures")),
    (
        "stores",
        "Traces, records, runs, tests",
        "Store tool calls and exchanges, run conversations that survive a process, and test without a provider.",
        ("traces", "records", "runs", "testing"),
    ),
)
_NAMES_HEAD = """# Public names

Every name that `toolwire` offers, with a link to its signature, its example and its members. Everything else may change
at any time. `make docs` generates these pages from the code.
"""
_SETTINGS_HEAD = """# Settings

Every setting of a request, a conversation, a client, a tool, the code tools and a server, with its type. Type checkers
know each one. `make docs` generates this page from the code.
"""
_ERRORS_HEAD = """# Errors

Every exception that toolwire raises itself. `ToolwireError` is the base of all. [Names](../names/errors.md) has their
members, and `make docs` generates this page from the code.

"""
SETTINGS = (
    ("Settings of a request", "For `chat`, `run`, `stream` and `generate`.", ("RequestSettings",)),
    ("Settings of a conversation", "For `run`, `stream` and `generate`, beside those of a request.", ("RunSettings",)),
    (
        "The model",
        "For the methods of `Client`. `generate` and `stream` accept it as a positional argument.",
        ("_Model",),
    ),
    (
        "The value of the answer",
        "One of these three. It determines the type of the returned value.",
        ("_Typed", "_Schema", "_Plain"),
    ),
    ("Options of `generate` and `stream`", "They configure the client of this one conversation.", ("_Options",)),
    (
        "Options of a client",
        "For `Client(...)` and `options={...}`.",
        ("ClientOptions",),
    ),
    ("Options of a tool", "For `@tool(...)`.", ("resolvers.functions.declare.ToolOptions",)),
    ("Options of the code tools", "For `CodeTools(...)`.", ("codetools.kit.CodeToolOptions",)),
    ("Limits of calls", "For `execute(...)`.", ("resolvers.execution.LimitOptions",)),
    ("Quirks", "For `dialect(name, ...)` and `quirks={...}`.", ("encoding.quirk_options.QuirkOptions",)),
)
# Bases of a library, and those whose fields are shown as the class's own.
_UNSAID = ("Struct", "Generic", "TypedDict", "Protocol", "_")
_SAYS_ITS_VALUE = {"class-attribute", "module-attribute"}
Names = dict[str, griffe.Object]
_COLUMN = 90  # characters of a line of code on the site, less the indentation of a member


def pages() -> dict[Path, str]:
    """Write each page that is made from the code, or has a part that is."""
    package = _package()
    names, reference = offered(package), DOCS / "reference.md"
    before, _, rest = reference.read_text().partition(BEGIN)
    tables = "\n".join((*_items(package, names), *_losses()))
    groups = grouped(names)
    made = {
        reference: f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}",
        DOCS / "public-names.md": "\n".join((_NAMES_HEAD, *_index(groups))),
        DOCS / "reference" / "settings.md": "\n".join((_SETTINGS_HEAD, *_settings(package))),
        DOCS / "reference" / "errors.md": _ERRORS_HEAD + "\n".join(_errors(package)),
    }
    for file, title, words, _ in GROUPS:
        described = (line for name, one in groups[file].items() for line in _described(name, one))
        head = f"# {title}\n\n{words} [All names](../public-names.md).\n\n"
        made[DOCS / "names" / f"{file}.md"] = head + "\n".join(described)
    return made


def grouped(names: Names) -> dict[str, Names]:
    """Return the names of each page of `docs/names/`."""
    groups: dict[str, Names] = {file: {} for file, *_ in GROUPS}
    for name, one in names.items():
        groups[_page_of(one)][name] = one
    return groups


def _page_of(one: griffe.Object) -> str:
    """Return the page of a name, by its module. Raise ValueError if no page has the module."""
    module = (one.path if one.is_module else one.module.path).removeprefix("toolwire.")
    fits = [
        (len(prefix), file)
        for file, _, _, prefixes in GROUPS
        for prefix in prefixes
        if f"{module}.".startswith(f"{prefix}.")
    ]
    if not fits:
        raise ValueError(f"{module}: add it to a page of GROUPS in scripts/reference.py")
    return max(fits)[1]


@cache
def _package() -> griffe.Object:
    return _target(griffe.load("toolwire", search_paths=[Path(toolwire.__file__).parent.parent]))


def offered(package: griffe.Object | None = None) -> Names:
    """Return every public name, in alphabetical order."""
    package = package or _package()
    homes: dict[str, str] = toolwire.__dict__["_HOME"]
    found = {name: _target(package[f"{home.removeprefix('toolwire.')}.{name}"]) for name, home in homes.items()}
    found |= {door: _target(package[home]) for door, home in toolwire.__dict__["_DOORS"].items()}
    return dict(sorted(found.items(), key=lambda pair: (pair[0].lower(), pair[0])))


def members_of(one: griffe.Object) -> list[griffe.Object]:
    """Return the public members of a class, those of its bases first. Methods that return steps are left out."""
    members = [_target(member) for member in {**one.inherited_members, **one.members}.values()]
    return [member for member in members if _is_shown(member)]


def _is_shown(member: griffe.Object) -> bool:
    match member:
        case griffe.Function(name="__init__"):
            return True
        case griffe.Function(name=name, returns=gives):
            return not name.startswith("_") and not str(gives).startswith("Work[")
        case griffe.Attribute(name=name):
            return not name.startswith("_") and (member.annotation is not None or member.docstring is not None)
    return False


def _target(one: griffe.Object | griffe.Alias) -> griffe.Object:
    return one.final_target if isinstance(one, griffe.Alias) else one


def _settings(package: griffe.Object) -> Iterator[str]:
    for title, words, classes in SETTINGS:
        yield from (f"## {title}", "", words, "", "| setting | what it is | type |", "|---|---|---|")
        for name in classes:
            fields = _target(package[name if "." in name else f"client.settings.{name}"])
            own = fields.members if "beside" in words else fields.attributes
            for one in (fields.attributes[field] for field in own):
                kind = _plain(one.annotation).replace("|", "\\|")
                yield f"{_row(one.name, _sentence(_target(one), whole=True))} `{kind}` |"
        yield ""


def _items(package: griffe.Object, names: Names) -> Iterator[str]:
    yield from ("## What a stream yields", "", "| item | what it is | its fields |", "|---|---|---|")
    for name in str(package["client.settings.StreamItem"].value).split(" | "):
        fields = [one for one in members_of(names[name]) if one.is_attribute and "property" not in one.labels]
        yield f"| `{name}` | {_sentence(names[name])} | {', '.join(f'`{field.name}`' for field in fields)} |"
    yield ""


def _errors(package: griffe.Object) -> Iterator[str]:
    yield from ("| error | what it is | derives from |", "|---|---|---|")
    for one in _classes(package):
        bases = [base.name for base in one.mro()]
        if (one.name == "ToolwireError" or "ToolwireError" in bases) and not one.name.startswith("_"):
            yield f"{_row(one.name, _sentence(one))} {f'`{bases[0]}`' if bases else '-'} |"
    yield ""


def _classes(module: griffe.Object) -> Iterator[griffe.Class]:
    """Yield every class of a package, those of its own modules in their order."""
    for member in module.members.values():
        if isinstance(member, griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def _losses() -> Iterator[str]:
    """Write the severity of each concept, as `toolwire.encoding.severities` has it."""
    rows: dict[tuple[str, str], list[str]] = {}
    for concept, severity in severities._CONCEPTS.items():
        rows.setdefault((severity, ""), []).append(concept)
    for (concept, action), severity in severities._CONCEPTS_BY_ACTION.items():
        rows.setdefault((severity, f", if {action}"), []).append(concept)
    for body, concepts in severities._CONCEPTS_BY_BODY.items():
        for concept, severity in concepts.items():
            rows.setdefault((severity, f", in {'an' if body == 'error' else 'a'} {body}"), []).append(concept)
    yield from ("## Severities", "", "The severity of a loss by its `concept`. [Losses](#losses) explains them.", "")
    yield from ("| severity | concepts |", "|---|---|")
    for (weight, when), names in sorted(rows.items()):
        yield f"| {weight}{when} | {', '.join(f'`{name}`' for name in sorted(names))} |"
    yield from (
        "| minor | every other one that was moved, renamed, merged or defaulted |",
        "| semantic | every other one |",
    )
    yield from ("", "The severity of a value that only one wire has (`...opaque.KEY`) depends on its key.", "")


def _index(groups: dict[str, Names]) -> Iterator[str]:
    for file, title, words, _ in GROUPS:
        yield from (f"## {title}", "", words, "", "| name | what it is |", "|---|---|")
        for name, one in groups[file].items():
            anchor = f"toolwire{name}" if one.is_module else name
            yield f"| [`{name}`](names/{file}.md#{anchor.lower()}) | {_sentence(one)} |"
        yield ""


def _described(name: str, one: griffe.Object) -> Iterator[str]:
    """Write one name: its signature, its docstring, and its members."""
    if isinstance(one, griffe.Module):
        held = {inner: _target(one[inner]) for inner in sorted(map(str, one.exports or ()))}
        functions = [line for inner, each in held.items() if each.is_function for line in _signatures(each, inner)]
        yield from (f"## `toolwire.{name}`", "", _sentence(one), "")
        yield from ("```text", *functions, "```", "") if functions else ()
        yield from ("| name | what it is |", "|---|---|")
        yield from (_row(inner, _sentence(each)) for inner, each in held.items())
        yield ""
        return
    members = members_of(one) if one.is_class and not _holds_settings(one) else []
    lines = [f"    {line}" for member in members for line in _signatures(member, one.name)]
    yield from (f"## `{name}`", "", "```text", *_signatures(one, name), *lines, "```", "")
    yield from (_with_fences(_words(one)), "")
    said = [f"- `{member.name}`: {_sentence(member)}" for member in members if member.docstring is not None]
    yield from (*said, "") if said else ()


def _holds_settings(one: griffe.Object) -> bool:
    return one.module.name == "settings" or one.name.endswith("Options")


def _signatures(one: griffe.Object, name: str) -> Iterator[str]:
    """Write a signature as the code has it; what makes a value of a class goes by the name of the class."""
    match one:
        case griffe.Class():
            bases = [base for base in map(str, one.bases) if not base.startswith(_UNSAID)]
            yield f"class {one.name}({', '.join(bases)})" if bases else f"class {one.name}"
        case griffe.Function():
            marks = "async " if "async" in one.labels else ""
            called = name if one.name == "__init__" or isinstance(one.parent, griffe.Module) else one.name
            for each in one.overloads or [one]:
                yield from _broken(f"{marks}{each.signature(name=called)}")
        case griffe.Attribute():
            value = f" = {_plain(one.value)}" if one.value is not None and _SAYS_ITS_VALUE & one.labels else ""
            yield f"{one.name}: {_plain(one.annotation)}{value}" if one.annotation else f"{one.name}{value}"


def _broken(signature: str) -> Iterator[str]:
    """Yield a signature as one line, or with a line for each parameter if it is longer than the column of the site."""
    opening = signature.find("(")
    depth, begin, parameters = 0, opening + 1, []
    for place, character in enumerate(signature[opening:], opening):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth == 0 or (depth == 1 and character == ","):
            parameters.append(signature[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    if len(signature) <= _COLUMN:
        yield signature
    else:
        yield from (signature[: opening + 1], *(f"    {one}," for one in parameters), signature[begin - 1 :])


def _words(one: griffe.Object) -> str:
    return one.docstring.value.strip() if one.docstring is not None else ""


def _with_fences(words: str) -> str:
    """Return `words` with its examples as code blocks of Markdown."""
    return re.sub(r"(?ms)^>>> .*?(?=\n\n|\Z)", r"```pycon\n\g<0>\n```", words)


def _sentence(one: griffe.Object, *, whole: bool = False) -> str:
    """Return the first paragraph of a docstring, or all of it, in one line."""
    words = _words(one) if whole else _words(one).partition("\n\n")[0]
    return " ".join(words.split()).replace("|", "\\|")


def _plain(expression: object) -> str:
    return str(expression).replace('"', "").replace("'", '"')


def _row(code: str, words: str) -> str:
    code = code.replace("|", "\\|")
    return f"| `{code}` | {words} |"


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(DOCS)}")
