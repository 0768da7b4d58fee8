"""The view Paste: the wire of a text, if it is valid, what each other wire would lose, and the translation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup
from msgspec import Struct

from toolwire.dialects import NAMES, dialect, traits_of
from toolwire.errors import ToolwireError
from toolwire.page.json_view import show_json
from toolwire.page.marks import Marked, place_losses, side_of
from toolwire.page.recognition import KINDS, Pasted, others, recognize, why_rejected
from toolwire.page.shown import Shown
from toolwire.page.streams import events_of
from toolwire.streams.accumulation import accumulate
from toolwire.translation import translate
from toolwire.translation.exchange import exchange
from toolwire.types import Loss

_SAMPLES = {"request": "request.json", "stream": "stream.txt"}
_FOLDER = Path(__file__).parent / "samples"
_SEVERITIES = ("semantic", "minor", "formal")


class _Translated(Struct, frozen=True):
    """A translation to one wire: its body or its bytes, its losses, or why there is none."""

    wire: str
    body: Any = None
    text: str = ""
    path: str = ""
    losses: tuple[Loss, ...] = ()
    problem: str = ""

    @property
    def counts(self) -> list[tuple[str, int]]:
        """The numbers of losses by severity, the gravest first."""
        return [(severity, sum(loss.severity == severity for loss in self.losses)) for severity in _SEVERITIES]


def show_paste(form: Mapping[str, str]) -> Shown:
    """Return the view for a form: the text, what it was said to be, and the wire to translate it to."""
    text = form.get("body", "").replace("\r\n", "\n")
    if not text and form.get("sample") in _SAMPLES:
        text = (_FOLDER / _SAMPLES[form["sample"]]).read_text(encoding="utf-8")
    kind, wire = _known(form.get("kind", ""), KINDS), _known(form.get("from", ""), NAMES)
    pasted = recognize(text, kind, wire)
    source = pasted.wires[0] if pasted.wires else ""
    target = _known(form.get("to", ""), others(source)) or others(source)[0]
    translations = [_translate(pasted, source, name) for name in others(source)] if pasted.kind and source else []
    chosen = next((one for one in translations if one.wire == target), None)
    if chosen is None and pasted.kind and source and target:
        chosen = _translate(pasted, source, target)
    rejection = why_rejected(pasted.body, source) if pasted.kind == "request" and source else ""
    data = {
        "kind": pasted.kind,
        "wires": pasted.wires,
        "problem": pasted.problem,
        "rejected": rejection or None,
        "ending": _ending(pasted, source),
        "translations": [
            {"wire": one.wire, "losses": dict(one.counts), "problem": one.problem or None} for one in translations
        ],
        "to": target,
        "path": chosen.path if chosen else None,
        "body": (chosen.body if chosen.body is not None else chosen.text) if chosen else None,
        "losses": chosen.losses if chosen else (),
    }
    extra = {
        "text": text,
        "chosen": chosen,
        "source": source,
        "asked": {"kind": kind, "from": wire},
        "names": NAMES,
        "kinds": KINDS,
        "table": translations,
        "bodies": _bodies(pasted, source, chosen),
        "events": events_of(pasted.data, source) if pasted.kind == "stream" and source else None,
    }
    return Shown("paste.html", "Paste", data, extra)


def _known(text: str, names: Sequence[str]) -> str:
    return text if text in names else ""


def _translate(pasted: Pasted, source: str, target: str) -> _Translated:
    """Return the translation to `target`, as the gateway would send it."""
    try:
        match pasted.kind:
            case "request":
                encoded: Any = exchange(pasted.body, source=source, target=target, path=_path_of(source)).encoded
                return _Translated(target, encoded.body, "", encoded.path, encoded.losses)
            case "response":
                encoded = translate.response(pasted.body, source, target)
                return _Translated(target, encoded.body, losses=encoded.losses)
            case "error":
                reply = translate.error(None, pasted.body, source, target)
                return _Translated(target, reply.body, f"HTTP {reply.status}", losses=reply.losses)
        stream = translate.stream(source, target)
        text = (stream.feed(pasted.data) + stream.close()).decode("utf-8", "replace")
        return _Translated(target, None, text, losses=tuple(stream.losses))
    except ToolwireError as problem:
        return _Translated(target, problem=str(problem))


def _path_of(wire: str) -> str:
    """Return a path for a wire whose path names the model, which a pasted body has not."""
    return "/v1beta/models/model:generateContent" if traits_of(wire).names_model_in_path else ""


def _ending(pasted: Pasted, source: str) -> str | None:
    """Return how a stream or a response ends, by its canonical word."""
    if not source or pasted.kind not in ("stream", "response"):
        return None
    try:
        if pasted.kind == "response":
            return dialect(source).decode_response(pasted.body).finish_reason
        decoder = dialect(source).decode_stream()
        return accumulate(decoder.feed(pasted.data) + decoder.close()).finish_reason
    except ToolwireError as problem:
        return str(problem)


def _bodies(pasted: Pasted, source: str, chosen: _Translated | None) -> dict[str, Any] | None:
    """Return both bodies with their marks, or None if there is nothing to show beside each other."""
    if pasted.kind is None or chosen is None:
        return None
    if pasted.kind == "stream":
        return {"marked": _unplaced(chosen.losses), "left": None, "right": None}
    is_request = pasted.kind == "request"
    left = side_of(pasted.body, source if is_request else "", _path_of(source))
    right = side_of(chosen.body, chosen.wire if is_request else "", chosen.path)
    marked = place_losses(chosen.losses, left, right)
    return {
        "marked": marked,
        "left": show_json(pasted.body, marked.source, side="s"),
        "right": show_json(chosen.body, marked.target, marked.ghosts, side="t")
        if chosen.body is not None
        else Markup(""),
        "size": (len(pasted.data), len(msgspec.json.encode(chosen.body)) if chosen.body is not None else 0),
    }


def _unplaced(losses: Sequence[Loss]) -> Marked:
    return Marked({}, {}, (), tuple(enumerate(losses, 1)))
