"""The shapes of syntax for calls in text. One engine for each shape decodes and encodes every format of that shape."""

from toolwire.text.shapes import (
    braces,
    channels,
    elements,
    json_calls,
    named_json,
    parameters,
    pythonic,
    recipients,
    tagged,
    templated,
)

ENGINES = {
    "json": json_calls,
    "named json": named_json,
    "parameters": parameters,
    "elements": elements,
    "pythonic": pythonic,
    "braces": braces,
    "channels": channels,
    "recipients": recipients,
    "tagged": tagged,
    "template": templated,
}
