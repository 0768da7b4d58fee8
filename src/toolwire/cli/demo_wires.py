"""The second half of `toolwire demo`: one request in five wires, and what each of them cannot express.

Every cell is computed: the request is encoded by each dialect, and the losses of the encodes fill the table.
"""

import shutil

from toolwire.cli.screen import Screen
from toolwire.dialects import NAMES, dialect
from toolwire.types import Context, Encoded, Image, Loss, Message, Request, Text, Tool

_QUESTION = Message("user", [Text("What is on it?"), Image(url="https://example.com/receipt.png", detail="high")])
_RATE = {"type": "object", "properties": {"currency": {"type": "string"}}, "required": ["currency"]}
_TOOL = Tool("get_rate", "Return an exchange rate.", {**_RATE, "additionalProperties": False}, strict=True)
_REQUEST = Request(
    model="any-model",
    context=Context("Be brief.", [_QUESTION], [_TOOL]),
    max_tokens=500,
    temperature=0.2,
    top_k=40,
    seed=7,
    logit_bias={"50256": -100},
    verbosity="low",
)
# The rows of the table: a value of the request, and the paths of its losses.
_IMAGE = "messages[0].content[1]"
_ROWS = (
    ("system prompt", ("system",)),
    ("image by URL", (_IMAGE, f"{_IMAGE}.url")),
    ("image detail", (f"{_IMAGE}.detail", _IMAGE)),
    ("strict tool", ("tools[0].strict",)),
    ("max_tokens", ("max_tokens",)),
    ("temperature", ("temperature",)),
    ("top_k", ("top_k",)),
    ("seed", ("seed",)),
    ("logit_bias", ("logit_bias",)),
    ("verbosity", ("verbosity",)),
)
_SENT = "sent"
_LOOKS = {"semantic": "error", "minor": "question", "formal": "note"}
_COLUMN = 18


def show_wires(screen: Screen) -> None:
    """Show the request's values in each wire, side by side if there is room, and the reason of each semantic loss."""
    encodings = {name: dialect(name).encode_request(_REQUEST) for name in NAMES}
    screen.line("One request, five wires. No loss is silent:", "words")
    screen.line()
    if shutil.get_terminal_size((120, 24)).columns > _COLUMN * (len(NAMES) + 1):
        _show_table(screen, encodings)
    else:
        _show_lists(screen, encodings)
    screen.line()
    name, most = max(encodings.items(), key=lambda pair: len(_semantic(pair[1])))
    screen.line(f"Each loss has a path and a reason. Those of {name}:", "words")
    for loss in _semantic(most):
        screen.line(f"  {loss}", "note")
    screen.line()
    screen.line("`toolwire translate --strict` and `strict=True` reject such a request instead.", "words")


def _semantic(encoded: Encoded) -> list[Loss]:
    """Return the losses that change what the model sees."""
    return [loss for loss in encoded.losses if loss.severity == "semantic"]


def _worst(encoded: Encoded, paths: tuple[str, ...]) -> Loss | None:
    """Return the most severe loss at one of `paths`, or None if the value is sent as it is."""
    losses = [loss for loss in encoded.losses if loss.path in paths]
    return min(losses, key=lambda loss: list(_LOOKS).index(loss.severity), default=None)


def _show_table(screen: Screen, encodings: dict[str, Encoded]) -> None:
    _show_cells(screen, "", [(name, "call") for name in encodings])
    for label, paths in _ROWS:
        losses = [_worst(encoded, paths) for encoded in encodings.values()]
        _show_cells(screen, label, [_cell(loss) for loss in losses])


def _cell(loss: Loss | None) -> tuple[str, str]:
    return (_SENT, "added") if loss is None else (loss.action, _LOOKS[loss.severity])


def _show_cells(screen: Screen, label: str, cells: list[tuple[str, str]]) -> None:
    """Write one row: each cell in its style, in a column of its own."""
    screen.start_line()
    screen.write(f"{label:<{_COLUMN}}")
    *others, last = cells
    for text, look in others:
        screen.write(f"{text:<{_COLUMN}}", look)
    screen.write(*last)
    screen.start_line()


def _show_lists(screen: Screen, encodings: dict[str, Encoded]) -> None:
    for name, encoded in encodings.items():
        screen.line(name, "call")
        for label, paths in _ROWS:
            loss = _worst(encoded, paths)
            if loss is not None:
                text, look = _cell(loss)
                screen.line(f"  {label}: {text}", look)
