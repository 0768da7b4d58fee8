"""Records without sensitive values, and with bodies of a limited length.

Rules of this file:
- Whatever is masked in a trace is masked here: known secrets in every form, values of sensitive names, and texts that
  look like keys.
- A JSON body is masked item by item: its messages, its tools, and each other member. An item that had nothing to hide
  is remembered, because the next turn of a conversation repeats it.
- A stream is masked as a whole, and its events keep their times. A secret that a model writes in pieces is found in the
  joined texts of the events.
- A body is masked before it is cut, so that no beginning of a secret stays at its end.
"""

import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec
from msgspec.structs import replace

from toolwire.records.capture import MARGIN
from toolwire.records.packing import PackedRecord, Splice
from toolwire.records.record import SIDES, Body, EarlierExchange, Frame, Record
from toolwire.scrubbing import LONG, UNREADABLE, Known, SecretScreen, find_spans, mask, scrub_text, scrub_texts

_REMEMBERED = 33_554_432  # bytes of items that had nothing to hide
_FEW_SECRETS = 256  # sets of known secrets whose forms are remembered
_SHORT = 64
_LONGEST_NAME, _NAMES = 64, 1000
_WINDOW = 4096  # bytes around the place where two bodies differ
_Span = tuple[int, int, str]

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
_LINE_END = re.compile(rb"\n")
_TEXT = re.compile(
    r'"(?:text|content|arguments|partial_json|thinking|delta|reasoning\w*|refusal|signature|input)"'
    r'\s*:\s*"((?:[^"\\]|\\.)*)"'
)
_KEY_IN_QUERY = re.compile(r"([?&](?:key|api[_-]?key|x-api-key|access_token|token)=)[^&#]+", re.IGNORECASE)
_HEADERS = re.compile(
    r"content-(?:type|length|encoding)|host|accept|user-agent|date|server|via|retry-after(?:-ms)?|x-should-retry"
    r"|anthropic-(?:beta|version|ratelimit-.+)|openai-(?:beta|version|processing-ms|model)|x-ratelimit-.+|x-stainless-.+"
    r"|x-goog-api-client|x-app|session_id|conversation_id|x-session-id|x-opencode-session|originator|version"
    r"|(?:x-)?request-id|x-toolwire-(?:request|model|losses|strict|estimate)|x-oai-request-id|cf-ray|traceparent"
)


class _Secrets:
    """The known secrets of some records, with the screen that passes texts without them."""

    def __init__(self, number: int, secrets: Sequence[str]) -> None:
        self.number = number
        # A shorter key, such as `EMPTY` or `test`, is a word of ordinary texts.
        self.known = Known(secret for secret in secrets if len(secret) >= LONG)
        self.may_hide = SecretScreen(self.known).may_hide


class Masker:
    """Masks records one after the other, and remembers items that had nothing to hide."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], _Secrets] = OrderedDict()
        self._clean: OrderedDict[tuple[int, str], None] = OrderedDict()
        self._names: dict[str, bool] = {}
        self._bytes = self._count = 0

    def clean(self, packed: PackedRecord, secrets: Sequence[str], limit: int) -> PackedRecord:
        """Return a record without sensitive values. A body has at most `limit` bytes."""
        known, record = self._known_of(tuple(secrets)), self._with_usual_headers(packed.record)
        if _has_nothing_to_hide(record, packed.splices, known, limit):
            return PackedRecord(_with_events(record, packed.splices), packed.splices)
        bodies, splices = dict[str, Body](), dict[str, Splice]()
        for side in SIDES:
            body = getattr(record, side)
            splice = packed.splices.get(side)
            if splice is not None:
                base = getattr(record, splice.side)
                if _keeps_splice(splice, base, bodies[splice.side], body, known):
                    splices[side] = splice
                    bodies[side] = self._with_clean_headers(body, known, bodies[splice.side])
                    continue
                body = replace(body, data=splice.applied(base.data, body.data))
            bodies[side] = self._clean_body(body, known, limit)
        clean = self._clean_fields(record, known, limit)
        return PackedRecord(replace(clean, **bodies), splices)

    def _clean_fields(self, record: Record, known: _Secrets, limit: int) -> Record:
        texts = (record.path, record.url, record.session, record.model, record.provider_model)
        path, url, session, model, provider_model = (_clean_text(text, known) for text in texts)
        losses = [replace(loss, detail=_clean_text(loss.detail, known)) for loss in record.losses]
        return replace(
            record,
            path=path,
            url=url,
            session=session,
            model=model,
            provider_model=provider_model,
            request_losses=tuple(losses[: len(record.request_losses)]),
            answer_losses=tuple(losses[len(record.request_losses) :]),
            earlier=tuple(self._clean_earlier(one, known, limit) for one in record.earlier),
        )

    def _with_clean_headers(self, body: Body, known: _Secrets, base: Body) -> Body:
        """Return a spliced body, whose bytes have nothing to hide. The same stream has the same events."""
        frames = _frames(body, [*accumulate(frame.size for frame in base.frames)], len(base.data), base.frames)
        return replace(body, headers=_clean_headers(body.headers, known), frames=frames)

    def _with_usual_headers(self, record: Record) -> Record:
        """Return a record with those headers that may be recorded."""
        bodies = {}
        for side in SIDES:
            body = getattr(record, side)
            if body.headers:
                bodies[side] = replace(body, headers=self._usual(body.headers))
        return replace(record, **bodies) if bodies else record

    def _usual(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in headers.items() if self._is_recorded(name)}

    def _is_recorded(self, name: str) -> bool:
        """Return True if a header may be recorded. The names are remembered, because they repeat."""
        if name not in self._names:
            if len(self._names) >= _NAMES:
                self._names.clear()
            self._names[name] = len(name) < _LONGEST_NAME and _HEADERS.fullmatch(name.lower()) is not None
        return self._names[name]

    def _known_of(self, secrets: tuple[str, ...]) -> _Secrets:
        """Return the secrets with their forms, which are costly to make."""
        if secrets not in self._known:
            self._count += 1
            self._known[secrets] = _Secrets(self._count, secrets)
            if len(self._known) > _FEW_SECRETS:
                self._known.popitem(last=False)
        self._known.move_to_end(secrets)
        return self._known[secrets]

    def _clean_earlier(self, earlier: EarlierExchange, known: _Secrets, limit: int) -> EarlierExchange:
        request, answer = (
            self._clean_body(replace(body, headers=self._usual(body.headers)), known, limit)
            for body in (earlier.request, earlier.answer)
        )
        return replace(earlier, url=_clean_text(earlier.url, known), request=request, answer=answer)

    def _clean_body(self, body: Body, known: _Secrets, limit: int) -> Body:
        headers = _clean_headers(body.headers, known)
        size, data = body.size or len(body.data), body.data[: limit + MARGIN]
        text = data.decode(errors="surrogateescape")
        if body.frames:
            ends = _ends_of_events(data, body)
            spans = _spans_of_stream(text, known)
            clean, ends = _masked(data, text, spans, ends)
        else:
            clean, ends = self._clean_whole(data, text, known), []
        is_cut = body.cut or len(body.data) > limit + MARGIN or len(clean) > limit
        clean = clean[:limit]
        frames = _frames(body, ends, len(clean))
        return replace(body, data=clean, size=size, cut=is_cut, headers=headers, frames=frames)

    def _clean_whole(self, data: bytes, text: str, known: _Secrets) -> bytes:
        """Return a whole body without sensitive values: item by item if it is JSON."""
        if not known.may_hide(text):
            return data
        pieces = _pieces(data)
        gaps = None if pieces is None else _gaps(data, pieces)
        if pieces is None or gaps is None or find_spans(b" ".join(gaps).decode(errors="surrogateescape"), known.known):
            clean_text = scrub_text(text, known.known)
            return data if clean_text == text else clean_text.encode(errors="surrogateescape")
        texts = [(prefix + bytes(raw) + suffix).decode(errors="surrogateescape") for prefix, raw, suffix in pieces]
        new = [index for index, one in enumerate(texts) if known.may_hide(one) and not self._is_clean(known, one)]
        changed = dict(zip(new, scrub_texts([texts[index] for index in new], known.known), strict=True))
        changed = {index: clean for index, clean in changed.items() if clean != texts[index]}
        for index in new:
            if index not in changed:
                self._remember(known, texts[index])
        if not changed:
            return data
        # What one item shows to be sensitive is hidden in the others, whether they were remembered or not.
        clean_texts = scrub_texts(texts, known.known)
        return _assembled(gaps, pieces, texts, clean_texts)

    def _is_clean(self, known: _Secrets, text: str) -> bool:
        key = known.number, text
        if key not in self._clean:
            return False
        self._clean.move_to_end(key)
        return True

    def _remember(self, known: _Secrets, text: str) -> None:
        if len(text) < _SHORT:
            return
        self._clean[known.number, text] = None
        self._bytes += len(text)
        while self._bytes > _REMEMBERED:
            (_, oldest), _ = self._clean.popitem(last=False)
            self._bytes -= len(oldest)


_Piece = tuple[bytes, bytes, bytes]


def _pieces(data: bytes) -> list[_Piece] | None:
    """Return the items of a JSON object, each as valid JSON: what is put before it, itself, and what is put after it.

    Return None if `data` is no JSON object whose items can be found again.
    """
    try:
        members = _read_members(data)
        pieces: list[_Piece] = []
        for name, raw in members.items():
            value = bytes(raw)
            items = _read_list(value) if value.startswith(b"[") and len(value) > _SHORT else []
            if items and all(bytes(item)[:1] == b"{" for item in items):
                pieces += [(b"", bytes(item), b"") for item in items]
            else:
                pieces.append((b"{" + msgspec.json.encode(name) + b":", value, b"}"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return pieces


def _gaps(data: bytes, pieces: Sequence[_Piece]) -> list[bytes] | None:
    """Return what is between the items: keys, brackets, and the values of keys that are there twice."""
    gaps, position = [], 0
    for _, raw, _ in pieces:
        start = data.find(raw, position)
        if start < 0:
            return None
        gaps.append(data[position:start])
        position = start + len(raw)
    return [*gaps, data[position:]]


def _assembled(
    gaps: Sequence[bytes], pieces: Sequence[_Piece], texts: Sequence[str], clean_texts: Sequence[str]
) -> bytes:
    """Return a body with the masked items in place of their originals."""
    result = [gaps[0]]
    for gap, (prefix, raw, _), text, clean in zip(gaps[1:], pieces, texts, clean_texts, strict=True):
        result += (raw if clean == text else _value_in(clean, wrapped=bool(prefix)), gap)
    return b"".join(result)


def _value_in(clean: str, *, wrapped: bool) -> bytes:
    """Return the masked value of a piece."""
    if not wrapped:
        return clean.encode(errors="surrogateescape") if clean != UNREADABLE else msgspec.json.encode(UNREADABLE)
    try:
        [value] = _read_members(clean.encode(errors="surrogateescape")).values()
        return bytes(value)
    except (msgspec.DecodeError, UnicodeError, ValueError):
        return msgspec.json.encode(UNREADABLE)


def _keeps_splice(splice: Splice, base: Body, clean_base: Body, body: Body, known: _Secrets) -> bool:
    """Return True if a spliced body has nothing to hide and is not cut, as its base has nothing to hide and is not cut.

    Whatever is sensitive in it alone is at the place where they differ.
    """
    return clean_base.data == base.data and not clean_base.cut and _is_clean_splice(splice, base, body, known)


def _is_clean_splice(splice: Splice, base: Body, body: Body, known: _Secrets) -> bool:
    window = _window_of(splice, base, body)
    return window is not None and not known.may_hide(window)


def _window_of(splice: Splice, base: Body, body: Body) -> str | None:
    """Return what is around the place where a spliced body differs. Return None for a stream with other events."""
    is_same = not body.data and splice.start + splice.end == len(base.data)
    if bool(body.frames) != bool(base.frames) or (body.frames and not is_same):
        return None
    end = len(base.data) - splice.end
    window = base.data[max(0, splice.start - _WINDOW) : splice.start] + body.data + base.data[end : end + _WINDOW]
    return "" if is_same else window.decode(errors="surrogateescape")


def _has_nothing_to_hide(record: Record, splices: Mapping[str, Splice], known: _Secrets, limit: int) -> bool:
    """Return True if a record certainly has nothing to hide and nothing to cut: the usual case, at one look."""
    if record.earlier or "=" in record.path or "=" in record.url:
        return False
    bodies = [getattr(record, side) for side in SIDES]
    if any(body.cut or len(body.data) > limit for body in bodies):
        return False
    texts = [record.path, record.url, record.session, record.model, record.provider_model]
    texts += [loss.detail for loss in record.losses]
    for side, body in zip(SIDES, bodies, strict=True):
        texts += body.headers.values()
        splice = splices.get(side)
        if splice is None:
            text = body.data.decode(errors="surrogateescape")
            texts.append(text)
            if body.frames:
                texts.append("".join(_TEXT.findall(text)))
        elif (window := _window_of(splice, getattr(record, splice.side), body)) is not None:
            texts.append(window)
        else:
            return False
    return not known.may_hide("\n".join(texts))


def _with_events(record: Record, splices: Mapping[str, Splice]) -> Record:
    """Return a record that has nothing to hide, with the events of its streams."""
    bodies = dict[str, Body]()
    for side in SIDES:
        body = getattr(record, side)
        if body.frames:
            base = bodies.get(splices[side].side) if side in splices else None
            ends = _ends_of_events(body.data, body) if base is None else [*accumulate(f.size for f in base.frames)]
            like = () if base is None else base.frames
            frames = _frames(body, ends, len(body.data) if base is None else len(base.data), like)
            bodies[side] = replace(body, frames=frames, size=body.size or len(body.data))
        elif not body.size and body.data and side not in splices:
            bodies[side] = replace(body, size=len(body.data))
    return replace(record, **bodies) if bodies else record


def _clean_headers(headers: Mapping[str, str], known: _Secrets) -> dict[str, str]:
    return {name: _clean_text(value, known) for name, value in headers.items()}


def _clean_text(text: str, known: _Secrets) -> str:
    """Return a short text without sensitive values, and without keys in its query."""
    if not known.may_hide(text) and "=" not in text:
        return text
    return _KEY_IN_QUERY.sub(lambda match: match[1] + mask("key"), scrub_text(text, known.known))


def _ends_of_events(data: bytes, body: Body) -> list[int]:
    """Return where each event of a stream ends. A stream of an unknown form has the pieces that were sent."""
    kind = body.content_type.partition(";")[0].strip().lower()
    pattern = _EVENT_END if kind == "text/event-stream" else _LINE_END if "ndjson" in kind else None
    if pattern is None:
        ends = [end for end in accumulate(frame.size for frame in body.frames) if end < len(data)]
    else:
        ends = [match.end() for match in pattern.finditer(data)]
    return ends if ends and ends[-1] == len(data) else [*ends, len(data)]


def _spans_of_stream(text: str, known: _Secrets) -> list[_Span]:
    """Return the sensitive parts of a stream, also of the texts that its events join to."""
    spans = find_spans(text, known.known) if known.may_hide(text) else []
    matches = [match.span(1) for match in _TEXT.finditer(text)]
    joined = "".join(text[start:end] for start, end in matches)
    if not joined or not known.may_hide(joined):
        return spans
    offsets = [0, *accumulate(end - start for start, end in matches)]
    for start, end, name in find_spans(joined, known.known):
        spans += _pieces_of_span(start, end, name, matches, offsets)
    return _merged(spans)


def _pieces_of_span(
    start: int, end: int, name: str, matches: Sequence[tuple[int, int]], offsets: Sequence[int]
) -> Iterator[_Span]:
    """Yield a part of the joined texts as parts of the stream."""
    index = max(0, bisect_left(offsets, start + 1) - 1)
    while index < len(matches) and offsets[index] < end:
        first, _ = matches[index]
        low, high = max(start, offsets[index]), min(end, offsets[index + 1])
        if low < high:
            yield first + low - offsets[index], first + high - offsets[index], name
        index += 1


def _merged(spans: list[_Span]) -> list[_Span]:
    """Return spans in order, those that overlap as one."""
    merged: list[_Span] = []
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, name))
    return merged


def _masked(data: bytes, text: str, spans: Sequence[_Span], ends: Sequence[int]) -> tuple[bytes, list[int]]:
    """Return a stream with masks in place of `spans`, and where its events end then."""
    if not spans:
        return data, [*ends]
    result, moved, position, end_index = list[bytes](), list[int](), 0, 0
    length = consumed = 0  # bytes of the result, and of `data` that it stands for
    for start, end, name in [*spans, (len(text), len(text), None)]:
        before = text[position:start].encode(errors="surrogateescape")
        while end_index < len(ends) and ends[end_index] <= consumed + len(before):
            moved.append(length + ends[end_index] - consumed)
            end_index += 1
        hidden = len(text[start:end].encode(errors="surrogateescape"))
        replacement = b"" if name is None else mask(name).encode()
        result += (before, replacement)
        consumed, length, position = consumed + len(before) + hidden, length + len(before) + len(replacement), end
        while end_index < len(ends) and ends[end_index] < consumed:  # an event that ends inside of what is hidden
            moved.append(length)
            end_index += 1
    return b"".join(result), moved


def _frames(body: Body, ends: Sequence[int], size: int, like: Sequence[Frame] = ()) -> tuple[Frame, ...]:
    """Return the events of a stream, each with the time at which its last byte was on the wire.

    `like` are the events of a stream with the same bytes.
    """
    if not ends:
        return ()
    arrived = [*accumulate(frame.size for frame in body.frames)]
    original = [*accumulate(frame.size for frame in like)] if like else _ends_of_events(body.data, body)
    frames, last = list[Frame](), 0
    for index, end in enumerate(ends):
        end = min(end, size)  # noqa: PLW2901 - the rest was cut
        if end <= last and frames:
            continue
        at = bisect_left(arrived, original[min(index, len(original) - 1)])
        frames.append(Frame(round(body.frames[min(at, len(arrived) - 1)].seconds, 6), end - last))
        last = end
    return tuple(frames)
