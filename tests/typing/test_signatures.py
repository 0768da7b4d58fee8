"""What the public signatures say: every setting that there is, `Any` for JSON alone, and what the reference has."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scripts import reference
from toolwire import Limits, Provider, Quirks, Request
from toolwire.client import dialogue, options, settings
from toolwire.encoding.quirk_options import QuirkOptions
from toolwire.providers import ProviderOptions
from toolwire.resolvers.execution import LimitOptions

# By their names, beside `dict[str, Any]` and `Mapping[str, Any]`.
JSON = {"body", "value", "content"}
OTHERS = {
    "args": "what `new` makes a message of: one argument or two",
    "context": "the caller's own, and of the type that his tools take",
    "fields": "the fields of a value, each of which is looked at",
    "given": "anything that may be a store",
    "losses": "errors lie below the types",
    "metadata": "the tables as SQLAlchemy knows them",
    "resolvers": "as they were given, of any class",
    "response": "errors lie below the types",
    "settings": "quirks, which each dialect says no more of than their names",
    "store": "anything that records",
}
VALUES_OF_A_SCHEMA = {"generate"}


def names(*classes: type) -> list[set[str]]:
    return [set(one.__annotations__) for one in classes]


def test_the_settings_of_a_request_are_those_that_are_taken() -> None:
    elsewhere = {"context", "model", "opaque", "tool_choice", "output"}
    typed = set(settings.RequestSettings.__annotations__) - {"system", "provider_state", "capabilities"}
    fields = set(Request.__struct_fields__) - elsewhere
    reason = "add these fields of Request to RequestSettings in client/settings.py, each with a sentence"
    assert fields - typed == set(), reason
    assert typed - fields == set(), "RequestSettings in client/settings.py has these, and Request has no such fields"
    said, meant = settings.RequestSettings.__annotations__, Request.__annotations__
    assert {name for name in said.keys() & meant.keys() if said[name] != meant[name]} == set()


def test_the_settings_of_a_run_are_those_that_are_taken() -> None:
    run, request = names(settings.RunSettings, settings.RequestSettings)
    taken = {*options.RUN_OPTIONS, "messages", "tools", "tool_choice"}
    assert run - request == taken - {"output"}
    joined = names(settings.ClientSettings, settings.ClientTyped, settings.ClientSchema)
    assert [one - run for one in joined] == [{"model", "output"}] * 3
    joined = names(settings.OnceSettings, settings.OnceTyped, settings.OnceSchema)
    client = {*options.SERVER_OPTIONS, *options.CLIENT_OPTIONS}
    assert [one - run for one in joined] == [{"options", "output"} | client] * 3


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (ProviderOptions, Provider.__struct_fields__),
        (LimitOptions, Limits.__struct_fields__),
        (QuirkOptions, Quirks.__struct_fields__),
        (settings.ClientOptions, [*Provider.__struct_fields__, *dialogue.CONNECTION_OPTIONS, "transport"]),
    ],
)
def test_options_are_the_fields_of_what_they_make(options: type, fields: list[str]) -> None:
    assert set(options.__annotations__) == set(fields)


def annotated(one: Any) -> Iterator[tuple[str, str]]:
    """Give what a function, a class or a field is annotated with, by name."""
    for each in getattr(one, "overloads", None) or [one]:
        yield from ((parameter.name, str(parameter.annotation)) for parameter in getattr(each, "parameters", ()))
        yield one.name, str(getattr(each, "returns", None) or getattr(each, "annotation", ""))


def vague(name: str, annotation: str) -> bool:
    """Whether an annotation says `Any` of what is no JSON."""
    rest = re.sub(r"(dict|Mapping)\[str, Any\]", "", annotation)
    return bool(re.search(r"\bAny\b", rest)) and name not in JSON | OTHERS.keys() | VALUES_OF_A_SCHEMA


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Keep nothing of the code that was read for later tests."""
    yield
    reference._package.cache_clear()


def test_the_reference_is_what_the_code_says() -> None:
    for path, text in reference.pages().items():
        assert path.read_text() == text, f"run `make docs`: {path.name}"
        assert re.findall(r"(?m)^\|.*\|  \|$", text) == [], "what is public has a sentence"
        assert re.findall(r"(?m)^\| `\w+` \|  \| `.*", text) == [], "a setting has a sentence"


def test_any_is_json() -> None:
    found: list[str] = []
    used: set[str] = set()
    for name, one in reference.offered().items():
        for member in [one] if one.is_function else [*reference.members_of(one)] if one.is_class else []:
            for place, annotation in annotated(member):
                used.add(place)
                found += [f"{name}.{member.name} {place}: {annotation}"] if vague(place, annotation) else []
    assert found == []
    assert OTHERS.keys() - used == set(), "what is excused is there"


@pytest.mark.parametrize(
    ("name", "annotation", "wanted"),
    [
        ("tools", "Any", True),
        ("tools", "Iterable[Any]", True),
        ("schema", "dict[str, Any] | None", False),
        ("body", "Any", False),
        ("tools", "AnyTool", False),
    ],
)
def test_what_is_vague_is_seen(name: str, annotation: str, wanted: bool) -> None:
    assert vague(name, annotation) == wanted
