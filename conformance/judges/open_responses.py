"""Judge responses and stream events of Open Responses with the types of `openresponses-types`.

It reads a list from standard input, each item a response and the events of its stream, and writes the complaints about
each.
"""

import inspect
import json
import sys
from typing import Any, get_args

import openresponses_types
from openresponses_types import ResponseResource
from pydantic import BaseModel, ValidationError


def main() -> None:
    """Judge each item of standard input."""
    items = json.load(sys.stdin)
    json.dump([complaints(item["response"], item["events"]) for item in items], sys.stdout)


def complaints(response: Any, events: list[Any]) -> list[str]:
    """Return what is wrong with a response, and with the events of its stream."""
    known = _event_types()
    errors = _errors(ResponseResource, response, "response")
    for event in events:
        name = event.get("type")
        errors += _errors(known[name], event, name) if name in known else [f"{name}: an unknown event"]
    return list(dict.fromkeys(errors))


def _event_types() -> dict[str, type[BaseModel]]:
    classes = [value for _, value in inspect.getmembers(openresponses_types, inspect.isclass)]
    return {
        name: model
        for model in classes
        if issubclass(model, BaseModel) and model.__name__.endswith("StreamingEvent")
        for name in _names(model.model_fields["type"].annotation)
    }


def _names(annotation: Any) -> list[str]:
    """Return the values of a literal, or those of an enumeration."""
    return [str(value) for value in get_args(annotation) or [member.value for member in annotation]]


def _errors(model: type[BaseModel], value: Any, name: str) -> list[str]:
    try:
        model.model_validate(value)
    except ValidationError as refusal:
        return [f"{name}: {'.'.join(map(str, error['loc']))}: {error['msg']}" for error in refusal.errors()]
    return []


if __name__ == "__main__":
    main()
