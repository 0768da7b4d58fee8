"""No sensitive value is in a record, in whichever form it was on the wire."""

import base64
import json
from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest

from toolwire.records import Body, EarlierExchange, Frame, Record
from toolwire.records.masking import Masker
from toolwire.records.packing import expand, shrink
from toolwire.types import Loss

CANARY = "canary-Zq8vN4tR7wL2mX9k"
KEY = "sk-proj-abcdefghij0123456789ABCDEFGHIJ"


def masked(record: Record, limit: int, secrets: Sequence[str] = (CANARY,), masker: Masker | None = None) -> Record:
    return expand((masker or Masker()).clean(shrink(record), secrets, limit))


def cleaned(data: bytes, *, limit: int = 1_000_000, **body: object) -> Body:
    record = Record(id="x", client_request=Body(data=data, **body))  # type: ignore[arg-type]
    return masked(record, limit).client_request


def request(content: str) -> bytes:
    messages = [{"role": "user", "content": "Hello."}, {"role": "user", "content": content}]
    return json.dumps({"model": "m", "messages": messages, "max_tokens": 10}).encode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "backwards": lambda text: text[::-1],
    "in JSON": lambda text: json.dumps({"note": text}),
    "escaped": lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
    "percent": lambda text: "".join(f"%{ord(character):02x}" for character in text),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_known_secret_is_masked_in_each_form(form: str) -> None:
    written = FORMS[form](CANARY)
    body = cleaned(request(f"the value is {written} here"))
    assert written.encode() not in body.data
    assert json.dumps(written)[1:-1].encode() not in body.data
    assert b"[hidden]" in body.data
    assert b"Hello." in body.data
    assert json.loads(body.data)["max_tokens"] == 10


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"%s","a":"x"}' % KEY.encode(),
        b'{"messages":[{"a":"%s","b":[]}],"messages":[{"a":1}]}' % KEY.encode(),
        b'{"messages":[{"role":"user"}],"password":"open sesame 17","x":"open sesame 17"}',
        b'["%s"]' % KEY.encode(),
        b"not json %s" % KEY.encode(),
        b'{"broken": "%s' % KEY.encode(),
        b'{"%s": 1}' % KEY.encode(),
        b'{"env":[{"name":"API_TOKEN","value":"open sesame 17"}]}',
        b"\xff\xfe %s" % KEY.encode(),
        b'{"headers":{"authorization":"open sesame 17"}}',
    ],
)
def test_whatever_a_body_is_it_is_masked(body: bytes) -> None:
    clean = cleaned(body).data
    assert KEY.encode() not in clean
    assert b"open sesame" not in clean
    assert b"[hidden" in clean


def test_what_one_item_shows_to_be_sensitive_is_masked_in_all() -> None:
    messages = [{"role": "user", "content": "I like four words and more"}, {"password": "four words and more"}]
    masker = Masker()
    for _ in range(2):  # the second time the first message would be remembered
        record = Record(id="x", client_request=Body(data=json.dumps({"messages": messages}).encode()))
        assert b"four words" not in masked(record, 10_000, [], masker).client_request.data


def test_a_body_with_nothing_to_hide_keeps_its_bytes() -> None:
    for data in (request("nothing"), b' {"a" : [ {"b" :1 } , {} ] }', b"", b"null", b"\xff\xfe\x00"):
        assert cleaned(data).data == data


def test_a_remembered_item_is_masked_for_another_secret() -> None:
    masker, record = Masker(), Record(id="x", client_request=Body(data=request(f"{CANARY} is a long enough message")))
    assert CANARY.encode() in masked(record, 10_000, [], masker).client_request.data
    assert CANARY.encode() not in masked(record, 10_000, [CANARY], masker).client_request.data


def stream(*pieces: str) -> Body:
    events = [b"data: " + json.dumps({"delta": {"content": piece}}).encode() + b"\n\n" for piece in pieces]
    frames = tuple(Frame(float(index), len(event)) for index, event in enumerate(events))
    return Body(data=b"".join(events), frames=frames, headers={"content-type": "text/event-stream"})


def clean_stream(body: Body, limit: int = 1_000_000) -> Body:
    return masked(Record(id="x", provider_answer=body), limit).provider_answer


@pytest.mark.parametrize("size", [1, 2, 5, 11, 100])
def test_a_secret_that_a_model_writes_in_pieces_is_masked(size: int) -> None:
    text = f"It is {CANARY}, and more follows."
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    clean = clean_stream(stream(*pieces))
    events = [event for _, event in clean.events()]
    assert len(events) == len(pieces)
    joined = "".join(json.loads(event[6:])["delta"]["content"] for event in events)
    assert CANARY not in joined
    assert joined.startswith("It is [hidden]")
    assert joined.endswith(", and more follows.")


def test_each_event_of_a_stream_keeps_its_time() -> None:
    clean = clean_stream(stream("one", CANARY, "three"))
    assert [seconds for seconds, _ in clean.events()] == [0.0, 1.0, 2.0]
    assert sum(frame.size for frame in clean.frames) == len(clean.data)
    assert [event.endswith(b"\n\n") for _, event in clean.events()] == [True] * 3


@pytest.mark.parametrize("cut", [1, 7, 40, 1000])
def test_events_do_not_depend_on_how_the_bytes_arrived(cut: int) -> None:
    whole = stream("one", "two", "three")
    sizes = [len(whole.data[start : start + cut]) for start in range(0, len(whole.data), cut)]
    frames = tuple(Frame(index / 10, size) for index, size in enumerate(sizes))
    clean = clean_stream(Body(data=whole.data, frames=frames, headers=whole.headers))
    assert [event for _, event in clean.events()] == [event for _, event in whole.events()]
    arrived = [*accumulate(sizes)]
    expected, end = [], 0
    for event in clean.events():
        end += len(event[1])
        expected.append(next(index / 10 for index, at in enumerate(arrived) if at >= end))
    assert [seconds for seconds, _ in clean.events()] == pytest.approx(expected)


def test_a_stream_is_cut_with_its_events() -> None:
    clean = clean_stream(stream(*["word"] * 100), limit=200)
    assert (len(clean.data), clean.cut) == (200, True)
    assert sum(frame.size for frame in clean.frames) == 200


def test_a_secret_at_the_place_of_the_cut_is_masked() -> None:
    for limit in range(90, 130):
        assert CANARY[:4].encode() not in cleaned(b"x" * 100 + b" " + CANARY.encode() + b" end", limit=limit).data


def test_a_short_key_is_a_word() -> None:
    record = Record(id="x", client_request=Body(data=request("a test of any EMPTY box")))
    assert masked(record, 1000, ["EMPTY", "any", "test"]).client_request.data == record.client_request.data


def test_headers_with_credentials_are_not_recorded() -> None:
    headers = {
        "authorization": "Bearer a",
        "x-api-key": "a",
        "cookie": "a",
        "x-goog-api-key": "a",
        "x-my-secret": "a",
        "user-agent": f"mine {CANARY}",
        "content-type": "application/json",
    }
    assert cleaned(b"{}", headers=headers).headers == {
        "user-agent": "mine [hidden]",
        "content-type": "application/json",
    }


def test_headers_of_earlier_exchanges_are_masked_as_well() -> None:
    body = Body(data=CANARY.encode(), headers={"authorization": CANARY, "user-agent": CANARY})
    record = Record(id="x", earlier=(EarlierExchange(request=body, answer=body, url=f"http://x.test/{CANARY}"),))
    [earlier] = masked(record, 1000).earlier
    assert earlier.request == earlier.answer
    assert (earlier.request.data, earlier.request.headers) == (b"[hidden]", {"user-agent": "[hidden]"})
    assert earlier.url == "http://x.test/[hidden]"


def test_addresses_and_losses_are_masked() -> None:
    record = Record(
        id="x",
        path=f"/v1beta/models/m:generateContent?key=short1&alt={CANARY}",
        url="https://user:pass@example.com/v1?api_key=abc",
        request_losses=(Loss("a", "b", "dropped", f"{CANARY} was there"),),
    )
    clean = masked(record, 100)
    assert clean.path == "/v1beta/models/m:generateContent?key=[hidden:key]&alt=[hidden]"
    assert clean.url == "https://[hidden:userinfo]@example.com/v1?api_key=[hidden:key]"
    assert CANARY not in clean.request_losses[0].detail
