"""Annotations that are text: what their names mean, wherever they were written."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pytest
from annotated_types import Ge

from tests.resolvers.functions.test_annotations import schema_of
from toolwire.errors import InvalidSchema
from toolwire.resolvers.functions.signature import Signature, read_signature

if TYPE_CHECKING:
    from decimal import Decimal


class Direction(enum.Enum):
    UP = "up"


T = TypeVar("T")


@dataclasses.dataclass
class Tree(Generic[T]):
    value: T
    children: list[Tree[T]]
    kept: dataclasses.InitVar[int] = 0


class Partly(TypedDict, total=False):
    needed: typing.Required[int]
    way: Direction


class Step(NamedTuple):
    way: Direction
    often: int = 1


class Walk(msgspec.Struct):
    steps: list[Step]
    way: Direction | None = None


class Machine:
    class Mode(enum.Enum):
        FAST = "fast"

    @dataclasses.dataclass
    class State:
        mode: Machine.Mode

    def run(self, mode: Mode, state: State) -> None: ...

    @staticmethod
    def halt(mode: Mode) -> None: ...

    @classmethod
    def make(cls, mode: Mode) -> None: ...


@dataclasses.dataclass
class Nested:
    class Inner(enum.Enum):
        A = "a"

    inner: Inner


def shown(signature: Signature) -> Any:
    return signature.parameters["properties"]


def test_names_of_the_module() -> None:
    def walk(way: Direction, often: Annotated[int, Ge(1)], notes: dict[str, list[int]] | None = None) -> None: ...

    assert shown(read_signature(walk)) == {
        "way": {"$ref": "#/$defs/Direction"},
        "often": {"type": "integer", "minimum": 1},
        "notes": {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
                {"type": "null"},
            ],
            "default": None,
        },
    }


def test_names_of_running_functions() -> None:
    @dataclasses.dataclass
    class Local:
        way: Direction
        following: Local | None = None

    def inner() -> Signature:
        class Deeper(TypedDict):
            local: Local

        def walk(local: Local, deeper: Deeper) -> None: ...

        return read_signature(walk)

    signature = inner()
    assert sorted(signature.parameters["$defs"]) == ["Deeper", "Direction", "Local"]
    assert signature.bind({"local": {"way": "up"}, "deeper": {"local": {"way": "up"}}})[1] == {
        "local": Local(Direction.UP),
        "deeper": {"local": Local(Direction.UP)},
    }


def test_names_of_closures() -> None:
    def make() -> Callable[..., Any]:
        class Local(enum.Enum):
            A = "a"

        def walk(local: Local) -> Any:
            return local, Local

        return walk

    assert shown(read_signature(make())) == {"local": {"$ref": "#/$defs/Local"}}


def test_what_is_gone_is_named() -> None:
    def make() -> Callable[..., Any]:
        class Local(enum.Enum):
            A = "a"

        def walk(local: list[Local]) -> None: ...

        assert Local.A
        return walk

    with pytest.raises(InvalidSchema, match=r"^walk\.local: the name 'Local' of the annotation 'list\[Local\]' is"):
        read_signature(make())


def test_what_is_imported_for_checking_alone_is_named() -> None:
    def pay(amount: Decimal) -> None: ...

    with pytest.raises(InvalidSchema, match="import it in the module, outside of `if TYPE_CHECKING`"):
        read_signature(pay)


@pytest.mark.parametrize("method", [Machine.run, Machine().run, Machine.__dict__["halt"], Machine.make])
def test_names_of_the_class_around_a_method(method: Any) -> None:
    signature = read_signature(method, skip=int(method is Machine.run))
    assert shown(signature)["mode"] == {"$ref": "#/$defs/Mode"}
    assert signature.bind({"mode": "fast", "state": {"mode": "fast"}} if "run" in repr(method) else {"mode": "fast"})


def test_names_of_the_class_itself() -> None:
    assert schema_of(Nested)["properties"] == {"inner": {"$ref": "#/$defs/Inner"}}


def test_type_variables_in_text() -> None:
    schema = schema_of(Tree[int])
    tree = schema["$defs"]["Tree_int_"]["properties"]
    assert tree["value"] == {"type": "integer"}
    assert tree["children"] == {"type": "array", "items": {"$ref": "#/$defs/Tree_int_"}}
    assert tree["kept"] == {"type": "integer", "default": 0}


def test_what_must_be_there_is_known_although_it_is_text() -> None:
    assert schema_of(Partly)["required"] == ["needed"]


def test_structs_and_named_tuples() -> None:
    def walk(walk: Walk) -> None: ...

    signature = read_signature(walk)
    assert signature.bind({"walk": {"steps": [["up"], ["up", 2]]}})[1] == {
        "walk": Walk([Step(Direction.UP), Step(Direction.UP, 2)])
    }


def test_a_decorated_function_is_read_where_it_was_written() -> None:
    namespace: dict[str, Any] = {"functools": functools}
    exec(  # noqa: S102 - a module with other names
        "def logged(function):\n"
        "    @functools.wraps(function)\n"
        "    def wrapper(*args, **kwargs): return function(*args, **kwargs)\n"
        "    return wrapper\n",
        namespace,
    )

    @namespace["logged"]  # type: ignore[untyped-decorator]
    def walk(way: Direction) -> None: ...

    assert shown(read_signature(walk)) == {"way": {"$ref": "#/$defs/Direction"}}


def test_a_reference_that_names_its_module() -> None:
    reference = ForwardRef("Direction", module=__name__)
    assert schema_of(list[reference])["items"] == {"$ref": "#/$defs/Direction"}  # type: ignore[valid-type]


def test_text_is_not_evaluated_twice() -> None:
    calls: list[int] = []

    def walk(way: (calls.append(1), int)[1]) -> None: ...  # type: ignore[valid-type]

    assert shown(read_signature(walk)) == {"way": {"type": "integer"}}
    assert calls == [1]


GENERIC = """
import dataclasses
import sys
import types
sys.modules[__name__] = module = types.ModuleType(__name__)
type Json = dict[str, Json] | list[Json] | int
type Pair[A] = tuple[A, A]
@dataclasses.dataclass
class Box[T]:
    held: T
    pair: Pair[T]
def find[Id: int](id: Id, json: Json, box: Box[str]) -> None: ...
module.__dict__.update(globals())
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
@pytest.mark.parametrize("future", ["from __future__ import annotations\n", ""])
def test_type_parameters(future: str) -> None:
    namespace: dict[str, Any] = {"__name__": "written_later"}
    exec(  # noqa: S102 - it is no Python for older versions
        future + GENERIC,
        namespace,
    )
    try:
        signature = read_signature(namespace["find"])
    finally:
        del sys.modules["written_later"]
    assert shown(signature) == {
        "id": {"type": "integer"},
        "json": {"$ref": "#/$defs/Json"},
        "box": {"$ref": "#/$defs/Box_str_"},
    }
    definitions = signature.parameters["$defs"]
    assert [definitions[name] for name in ("Json", "Pair_str_", "Box_str_")] == [
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                {"type": "integer"},
            ]
        },
        {"type": "array", "prefixItems": [{"type": "string"}] * 2, "minItems": 2, "maxItems": 2},
        {
            "type": "object",
            "properties": {"held": {"type": "string"}, "pair": {"$ref": "#/$defs/Pair_str_"}},
            "required": ["held", "pair"],
            "additionalProperties": False,
        },
    ]
    box = {"held": "a", "pair": ["b", "c"]}
    assert signature.bind({"id": 1, "json": {"a": [1]}, "box": box})[1]["box"].pair == ("b", "c")
