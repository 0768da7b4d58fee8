"""Request bodies of any size, in five wires and many shapes: what grows is the argument of each shape.

A wire spells five things: a user's message, a message with calls, results, a tool, and the request around them. A shape
uses these alone, so it is the same on every wire.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Entries = list[dict[str, Any]]
Call = tuple[str | None, str, Any]  # id, name, arguments
Result = tuple[str | None, str | None, str]  # id, name, text


class Spelling(NamedTuple):
    """How a wire writes the parts of a request."""

    path: str
    say: Callable[[str, Sequence[str]], Entries]  # role, texts
    call: Callable[[Sequence[Call]], Entries]
    answer: Callable[[Sequence[Result]], Entries]
    tool: Callable[[str, Any], dict[str, Any]]
    ask: Callable[[Entries, Entries], dict[str, Any]]


def _known(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _texts(texts: Sequence[str], kind: str = "text") -> Any:
    return texts[0] if len(texts) == 1 else [{"type": kind, "text": text} for text in texts]


def _with_tools(body: dict[str, Any], tools: Entries) -> dict[str, Any]:
    return {**body, "tools": tools} if tools else body


def _chat_calls(calls: Sequence[Call]) -> Entries:
    written = [
        {**_known(id=call_id), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": written}]


CHAT = Spelling(
    "/v1/chat/completions",
    lambda role, texts: [{"role": role, "content": _texts(texts)}],
    _chat_calls,
    lambda results: [
        {"role": "tool", **_known(tool_call_id=call_id, name=name), "content": text} for call_id, name, text in results
    ],
    lambda name, schema: {"type": "function", "function": {"name": name, "description": "d", "parameters": schema}},
    lambda entries, tools: _with_tools({"model": "m", "messages": entries}, tools),
)


def _responses_say(role: str, texts: Sequence[str]) -> Entries:
    kind = "output_text" if role == "assistant" else "input_text"
    return [{"type": "message", "role": role, "content": _texts(texts, kind)}]


RESPONSES = Spelling(
    "/v1/responses",
    _responses_say,
    lambda calls: [
        {"type": "function_call", **_known(call_id=call_id), "name": name, "arguments": json.dumps(arguments)}
        for call_id, name, arguments in calls
    ],
    lambda results: [
        {"type": "function_call_output", **_known(call_id=call_id), "output": text} for call_id, _, text in results
    ],
    lambda name, schema: {"type": "function", "name": name, "description": "d", "parameters": schema},
    lambda entries, tools: _with_tools({"model": "m", "input": entries}, tools),
)

MESSAGES = Spelling(
    "/v1/messages",
    lambda role, texts: [{"role": role, "content": _texts(texts)}],
    lambda calls: [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", **_known(id=call_id), "name": name, "input": arguments}
                for call_id, name, arguments in calls
            ],
        }
    ],
    lambda results: [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", **_known(tool_use_id=call_id), "content": text} for call_id, _, text in results
            ],
        }
    ],
    lambda name, schema: {"name": name, "description": "d", "input_schema": schema},
    lambda entries, tools: _with_tools({"model": "m", "max_tokens": 100, "messages": entries}, tools),
)


def _gemini_ask(entries: Entries, tools: Entries) -> dict[str, Any]:
    return _with_tools({"contents": entries}, [{"functionDeclarations": tools}] if tools else [])


GEMINI = Spelling(
    "/v1beta/models/m:generateContent",
    lambda role, texts: [
        {"role": "model" if role == "assistant" else role, "parts": [{"text": text} for text in texts]}
    ],
    lambda calls: [
        {
            "role": "model",
            "parts": [
                {"functionCall": _known(id=call_id, name=name, args=arguments)} for call_id, name, arguments in calls
            ],
        }
    ],
    lambda results: [
        {
            "role": "user",
            "parts": [
                {"functionResponse": _known(id=call_id, name=name or "f", response={"output": text})}
                for call_id, name, text in results
            ],
        }
    ],
    lambda name, schema: {"name": name, "description": "d", "parametersJsonSchema": schema},
    _gemini_ask,
)

OLLAMA = Spelling(
    "/api/chat",
    lambda role, texts: [{"role": role, "content": "\n".join(texts)}],
    lambda calls: [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {**_known(id=call_id), "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in calls
            ],
        }
    ],
    lambda results: [
        {"role": "tool", **_known(tool_call_id=call_id, tool_name=name), "content": text}
        for call_id, name, text in results
    ],
    lambda name, schema: {"type": "function", "function": {"name": name, "description": "d", "parameters": schema}},
    lambda entries, tools: _with_tools({"model": "m", "messages": entries}, tools),
)

SPELLINGS = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": MESSAGES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}

Shape = Callable[[Spelling, int], dict[str, Any]]
SEVERAL = 8
OBJECT: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def _calls(count: int, call_id: Callable[[int], str | None], name: str = "f") -> list[Call]:
    return [(call_id(number), name, {"n": number}) for number in range(count)]


def _results(count: int, call_id: Callable[[int], str | None], name: str | None = "f") -> list[Result]:
    return [(call_id(number), name, "done") for number in range(count)]


def _ids(number: int) -> str:
    return f"call_{number}"


def _same(_: int) -> str:
    return "call_0"


def _escaped(number: int) -> str:
    return f"srv/call:{number}|x"


def _long(number: int) -> str:
    return f"{'x' * 120}{number}"


def _none(_: int) -> None:
    return None


def _turns(call_id: Callable[[int], str | None]) -> Shape:
    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        entries = wire.say("user", ["Go."])
        for call, result in zip(_calls(size, call_id), _results(size, call_id), strict=True):
            entries += wire.call([call])
            entries += wire.answer([result])
        return wire.ask(entries, [wire.tool("f", OBJECT)])

    return shape


def _parallel(asked: Callable[[int], str | None], answered: Callable[[int], str | None], *, share: float = 1) -> Shape:
    """Give a message with so many calls, and results for a share of them."""

    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        called = wire.call(_calls(size, asked)) if asked is not _nothing else []
        results = wire.answer(_results(int(size * share), answered)) if share else []
        return wire.ask([*wire.say("user", ["Go."]), *called, *results], [wire.tool("f", OBJECT)])

    return shape


def _nothing(_: int) -> None:
    return None


def _reversed(wire: Spelling, size: int) -> dict[str, Any]:
    results = wire.answer(_results(size, _ids)[::-1])
    return wire.ask([*wire.say("user", ["Go."]), *wire.call(_calls(size, _ids)), *results], [])


def _late(wire: Spelling, size: int) -> dict[str, Any]:
    """Calls in messages of their own, and all results at the end."""
    entries = wire.say("user", ["Go."])
    for call in _calls(size, _ids):
        entries += wire.call([call])
        entries += wire.say("user", ["And?"])
    return wire.ask([*entries, *wire.answer(_results(size, _ids))], [])


def _late_reversed(wire: Spelling, size: int) -> dict[str, Any]:
    entries = wire.say("user", ["Go."])
    for call in _calls(size, _ids):
        entries += wire.call([call])
        entries += wire.say("user", ["And?"])
    return wire.ask([*entries, *wire.answer(_results(size, _ids)[::-1])], [])


def _named(wire: Spelling, size: int) -> dict[str, Any]:
    """Calls without ids of many names, and results that name them, the last one first."""
    calls: list[Call] = [(None, f"f{number}", {}) for number in range(size)]
    results: list[Result] = [(None, f"f{number}", "done") for number in reversed(range(size))]
    return wire.ask([*wire.say("user", ["Go."]), *wire.call(calls), *wire.answer(results)], [])


def _messages(wire: Spelling, size: int) -> dict[str, Any]:
    entries = wire.say("user", ["Go."])
    for number in range(size):
        entries += wire.say("assistant", [f"Step {number}."])
        entries += wire.say("user", [f"And then {number}?"])
    return wire.ask(entries, [])


def _one_speaker(role: str) -> Shape:
    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        entries = wire.say("user", ["Go."])
        for number in range(size):
            entries += wire.say(role, [f"Line {number}."])
        return wire.ask(entries, [])

    return shape


def _texts_of(role: str) -> Shape:
    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        texts = [f"Line {number}." for number in range(size)]
        return wire.ask([*wire.say("user", ["Go."]), *wire.say(role, texts), *wire.say("user", ["And?"])], [])

    return shape


def _one_text(wire: Spelling, size: int) -> dict[str, Any]:
    return wire.ask(wire.say("user", ['A line\nof "text" \u00e4. ' * (size * 20)]), [])


def _tools(name: Callable[[int], str], schema: Any = OBJECT) -> Shape:
    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        tools = [wire.tool(name(number), schema) for number in range(size)]
        return wire.ask(wire.say("user", ["Go."]), tools)

    return shape


def _used_tools(wire: Spelling, size: int) -> dict[str, Any]:
    """Tools whose names are escaped, each of them called."""
    names = [f"srv/tool.{number}" for number in range(size)]
    entries = wire.say("user", ["Go."])
    for number, name in enumerate(names):
        entries += wire.call([(_ids(number), name, {})])
        entries += wire.answer([(_ids(number), name, "done")])
    return wire.ask(entries, [wire.tool(name, OBJECT) for name in names])


def _colliding(number: int) -> str:
    """Names whose written forms differ in their suffixes alone, and those written forms themselves."""
    place, form = divmod(number, 4)
    return (f"a{place}.b", f"a{place}/b", f"a{place}_b", f"a{place}_b__tw{len(str(place)) + 1}-2e")[form]


def _schema(of: Callable[[int], Any], tools: int = 1) -> Shape:
    """Give tools of one schema; what is only so deep takes several of them to be measured."""

    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        schema = of(size)
        return wire.ask(wire.say("user", ["Go."]), [wire.tool(f"f{number}", schema) for number in range(tools)])

    return shape


def _deep(step: Callable[[Any], Any]) -> Callable[[int], Any]:
    """Give a schema that is nested so deep."""

    def schema(size: int) -> Any:
        inner: Any = {"type": "string"}
        for _ in range(size):
            inner = step(inner)
        return {"type": "object", "properties": {"x": inner}}

    return schema


def _properties(size: int) -> Any:
    properties = {f"p{number}": {"type": "string", "description": "A word."} for number in range(size)}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _optional(size: int) -> Any:
    return {"type": "object", "properties": {f"p{number}": {"type": ["string", "null"]} for number in range(size)}}


def _choices(word: str) -> Callable[[int], Any]:
    def schema(size: int) -> Any:
        branches = [
            {"type": "object", "properties": {f"p{number}": {"type": "string"}}, "required": [f"p{number}"]}
            for number in range(size)
        ]
        return {"type": "object", "properties": {"x": {word: branches}}}

    return schema


def _enum(size: int) -> Any:
    return {"type": "object", "properties": {"x": {"type": "string", "enum": [f"v{n}" for n in range(size)]}}}


def _chain(size: int) -> Any:
    """Definitions of which each refers to the next one."""
    defs: dict[str, Any] = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(size)}
    defs[f"d{size}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def _nested_chain(size: int) -> Any:
    defs: dict[str, Any] = {
        f"d{number}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{number + 1}"}}}
        for number in range(size)
    }
    defs[f"d{size}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def _shared(size: int) -> Any:
    """Many properties that refer to one definition."""
    properties = {f"p{number}": {"$ref": "#/$defs/d"} for number in range(size)}
    return {"type": "object", "properties": properties, "$defs": {"d": OBJECT}}


def _fans(size: int) -> Any:
    """Many properties that refer to a definition each."""
    properties = {f"p{number}": {"$ref": f"#/$defs/d{number}"} for number in range(size)}
    return {"type": "object", "properties": properties, "$defs": {f"d{number}": OBJECT for number in range(size)}}


def _twice(size: int) -> Any:
    """Definitions of which each refers twice to the next one: written out they would double with each."""
    defs: dict[str, Any] = {
        f"d{number}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{number + 1}"} for side in ("left", "right")},
        }
        for number in range(size)
    }
    defs[f"d{size}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def _ring(size: int) -> Any:
    """Definitions in a ring, each of which refers to all that comes after it by the next."""
    defs: dict[str, Any] = {
        f"d{number}": {
            "type": "object",
            "properties": {"next": {"$ref": f"#/$defs/d{(number + 1) % size}"}, "self": {"$ref": f"#/$defs/d{number}"}},
        }
        for number in range(size)
    }
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def _arguments(of: Callable[[int], Any], calls: int = 1) -> Shape:
    def shape(wire: Spelling, size: int) -> dict[str, Any]:
        arguments = of(size)
        called = wire.call([(_ids(number), "f", arguments) for number in range(calls)])
        return wire.ask([*wire.say("user", ["Go."]), *called, *wire.answer(_results(calls, _ids))], [])

    return shape


def _wide_arguments(size: int) -> Any:
    return {f"k{number}": [number, None, {"a": "b"}] for number in range(size)}


def _deep_arguments(size: int) -> Any:
    inner: Any = 1
    for _ in range(size):
        inner = {"a": [inner]}
    return {"x": inner}


SHAPES: dict[str, Shape] = {
    "messages": _messages,
    "user in a row": _one_speaker("user"),
    "assistant in a row": _one_speaker("assistant"),
    "system in a row": _one_speaker("system"),
    "parts of the user": _texts_of("user"),
    "parts of the assistant": _texts_of("assistant"),
    "one text": _one_text,
    "turns": _turns(_ids),
    "turns of one id": _turns(_same),
    "turns of odd ids": _turns(_escaped),
    "turns of long ids": _turns(_long),
    "turns without ids": _turns(_none),
    "parallel": _parallel(_ids, _ids),
    "parallel of one id": _parallel(_same, _same),
    "parallel of odd ids": _parallel(_escaped, _escaped),
    "parallel of long ids": _parallel(_long, _long),
    "parallel without ids": _parallel(_none, _none),
    "half the results": _parallel(_ids, _ids, share=0.5),
    "calls without results": _parallel(_ids, _ids, share=0),
    "one id without results": _parallel(_same, _same, share=0),
    "results without calls": _parallel(_nothing, _ids),
    "results of one id without calls": _parallel(_nothing, _same),
    "results without ids": _parallel(_ids, _none),
    "results of names": _named,
    "results in reverse": _reversed,
    "late results": _late,
    "late results in reverse": _late_reversed,
    "tools": _tools(lambda number: f"tool_{number}"),
    "tools of odd names": _tools(lambda number: f"srv/tool.{number}"),
    "tools of long names": _tools(lambda number: f"{'x' * 120}{number}"),
    "tools of one name": _tools(lambda _: "f"),
    "tools that collide": _tools(_colliding),
    "tools that are used": _used_tools,
    "schema of objects": _schema(_deep(lambda inner: {"type": "object", "properties": {"x": inner}}), SEVERAL),
    "schema of lists": _schema(_deep(lambda inner: {"type": "array", "items": inner}), SEVERAL),
    "schema of choices": _schema(_deep(lambda inner: {"anyOf": [inner, {"type": "null"}]}), SEVERAL),
    "schema of all": _schema(_deep(lambda inner: {"allOf": [inner], "description": "d"}), SEVERAL),
    "schema of one": _schema(_deep(lambda inner: {"oneOf": [inner, {"type": "integer"}]}), SEVERAL),
    "properties": _schema(_properties),
    "optional properties": _schema(_optional),
    "any of many": _schema(_choices("anyOf")),
    "one of many": _schema(_choices("oneOf")),
    "all of many": _schema(_choices("allOf")),
    "enum": _schema(_enum),
    "chain of references": _schema(_chain),
    "nested references": _schema(_nested_chain),
    "references to one": _schema(_shared),
    "references": _schema(_fans),
    "references twice": _schema(_twice),
    "ring of references": _schema(_ring),
    "wide arguments": _arguments(_wide_arguments),
    "deep arguments": _arguments(_deep_arguments, SEVERAL),
}


def _thoughts(wire: str, size: int) -> Any:
    """Give what an assistant says when it thinks so many times before it answers."""
    texts = [f"Thought {number}." for number in range(size)]
    match wire:
        case "openai-chat":
            details = [{"type": "reasoning.text", "text": text, "signature": "c2ln"} for text in texts]
            return [{"role": "assistant", "content": "Done.", "reasoning_details": details}]
        case "openai-responses":
            items: Entries = []
            for number, text in enumerate(texts):
                summary = [{"type": "summary_text", "text": text}]
                items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": "c2"})
                items += RESPONSES.call([(_ids(number), "f", {})])
            return items
        case "anthropic":
            blocks: Entries = []
            for number, text in enumerate(texts):
                blocks.append({"type": "thinking", "thinking": text, "signature": f"c2ln{number}"})
                blocks.append({"type": "text", "text": text})
            return [{"role": "assistant", "content": blocks}]
        case "gemini":
            parts: Entries = [{"text": text, "thought": True, "thoughtSignature": "c2ln"} for text in texts]
            return [{"role": "model", "parts": [*parts, {"text": "Done."}]}]
    return [
        turn
        for text in texts
        for turn in (
            {"role": "assistant", "thinking": text, "content": "Done."},
            {"role": "assistant", "thinking": text, "content": "Done."},
        )
    ]


def _pictures(wire: str, size: int) -> Any:
    data = "iVBORw0KGgo="
    match wire:
        case "openai-chat":
            block: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        case "openai-responses":
            block = {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "auto"}
        case "anthropic":
            block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        case "gemini":
            block = {"inlineData": {"mimeType": "image/png", "data": data}}
            return [{"role": "user", "parts": [block] * size}]
        case _:
            return [{"role": "user", "content": "Look.", "images": [data] * size}]
    return [{"role": "user", "content": [block] * size}]


def _picture_results(wire: str, size: int) -> Any:
    """Give so many results that hold an image each."""
    spelling = SPELLINGS[wire]
    entries = spelling.call(_calls(size, _ids))
    data = "iVBORw0KGgo="
    for number in range(size):
        name = _ids(number)
        match wire:
            case "openai-chat":
                content = [{"type": "text", "text": "a"}, *_pictures(wire, 1)[0]["content"]]
                entries.append({"role": "tool", "tool_call_id": name, "content": content})
            case "openai-responses":
                output = _pictures(wire, 1)[0]["content"]
                entries.append({"type": "function_call_output", "call_id": name, "output": output})
            case "anthropic":
                content = _pictures(wire, 1)[0]["content"]
                block = {"type": "tool_result", "tool_use_id": name, "content": content, "is_error": False}
                entries.append({"role": "user", "content": [block]})
            case "gemini":
                response = {
                    "id": name,
                    "name": "f",
                    "response": {"output": "a"},
                    "parts": _pictures(wire, 1)[0]["parts"],
                }
                entries.append({"role": "user", "parts": [{"functionResponse": response}]})
            case _:
                entries.append({"role": "tool", "tool_name": "f", "content": "a", "images": [data]})
    return entries


def _odd(_wire: str, size: int) -> Any:
    """Give entries of a conversation that no wire knows."""
    return [{"role": "oracle", "type": f"odd_{number}", "content": {"a": number}} for number in range(size)]


def _odd_parts(wire: str, size: int) -> Any:
    parts = [{"type": f"odd_{number}", "value": number} for number in range(size)]
    return [{"role": "user", ("parts" if wire == "gemini" else "content"): parts}]


Own = Callable[[str, int], Any]
OWN_SHAPES: dict[str, Own] = {
    "thoughts": _thoughts,
    "pictures": _pictures,
    "results with pictures": _picture_results,
    "odd entries": _odd,
    "odd parts": _odd_parts,
}


def _spelled(own: Own) -> Callable[[str, int], dict[str, Any]]:
    def body(source: str, size: int) -> dict[str, Any]:
        wire = SPELLINGS[source]
        return wire.ask([*wire.say("user", ["Go."]), *own(source, size), *wire.say("user", ["And?"])], [])

    return body


def _members(source: str, size: int) -> dict[str, Any]:
    """Give a body with so many members that no wire knows."""
    wire = SPELLINGS[source]
    return {**wire.ask(wire.say("user", ["Go."]), []), **{f"x_{number}": [number] for number in range(size)}}


def _of_wire(shape: Shape) -> Callable[[str, int], dict[str, Any]]:
    return lambda source, size: shape(SPELLINGS[source], size)


def _of_any(shape: Callable[[Any, int], dict[str, Any]]) -> Callable[[str, int], dict[str, Any]]:
    return lambda source, size: shape(SPELLINGS[source], size)


BODIES: dict[str, Callable[[str, int], dict[str, Any]]] = {
    **{name: _of_wire(shape) for name, shape in SHAPES.items()},
    **{name: _spelled(own) for name, own in OWN_SHAPES.items()},
    "members": _members,
}


def body_of(source: str, shape: str, size: int) -> bytes:
    """Write a request of a wire, of one shape and size."""
    return json.dumps(BODIES[shape](source, size), separators=(",", ":")).encode()
