"""How long to wait after an error, in every dialect: read, kept on the way, and written again."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wires import DIALECTS, PAIRS
from toolwire import Error, ErrorEnd, translate
from toolwire.dialects import NAMES
from toolwire.wire.retry_after import RETRY_INFO, retry_info

BODIES: dict[str, Any] = {
    "openai-chat": {"error": {"message": "Slow.", "type": "rate_limit_error", "param": None, "code": None}},
    "openai-responses": {"error": {"message": "Slow.", "type": "rate_limit_error", "param": None, "code": None}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow."}},
    "gemini": {"error": {"code": 429, "message": "Slow.", "status": "RESOURCE_EXHAUSTED"}},
    "ollama": {"error": "Slow."},
}
NOTED: dict[str, Any] = {
    "error": {
        "code": 429,
        "message": "Slow.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": RETRY_INFO, "retryDelay": "34.5s", "more": 1},
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
        ],
    }
}
WAITS: list[tuple[dict[str, str], float]] = [
    ({"retry-after": "30"}, 30.0),
    ({"Retry-After-Ms": "1500"}, 1.5),
    ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
    ({"retry-after": "Sun, 22 Nov 2026 10:00:10 GMT", "date": "Sun, 22 Nov 2026 10:00:00 GMT"}, 10.0),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("headers", "seconds"), WAITS)
@pytest.mark.parametrize("name", NAMES)
def test_a_wait_is_read_and_written_again(name: str, headers: dict[str, str], seconds: float) -> None:
    dialect, body = DIALECTS[name], BODIES[name]
    error = dialect.decode_error(429, body, headers)
    assert (error.kind, error.retry_after) == ("rate_limit", seconds)
    reply = dialect.encode_error(error)
    assert (reply.status, reply.body) == (429, body)
    assert reply.headers["retry-after"] == str(math.ceil(seconds))
    assert dialect.decode_error(reply.status, reply.body, reply.headers) == error
    assert dialect.decode_error(429, body).retry_after is None
    assert dialect.encode_error(replace(error, retry_after=None)).headers == {}


@pytest.mark.sampled
@pytest.mark.parametrize("body", [None, "slow", ["slow"], {}, [], 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_wait_is_read_beside_any_body(name: str, body: Any) -> None:
    error = DIALECTS[name].decode_error(429, body, {"retry-after": "7"})
    assert error.retry_after == 7.0
    reply = DIALECTS[name].encode_error(error)
    assert (reply.body, reply.headers) == (body, {"retry-after": "7"})


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_is_no_wait_where_no_limit_was_reached(name: str) -> None:
    assert DIALECTS[name].decode_error(500, {}, {"x-ratelimit-reset-requests": "20s"}).retry_after is None


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_wait_comes_to_the_other_wire(source: str, target: str) -> None:
    reply = translate.error(429, BODIES[source], source, target, {"retry-after": "30"})
    assert reply.headers == {"retry-after": "30"}
    error = DIALECTS[target].decode_error(reply.status, reply.body, reply.headers)
    assert (error.kind, error.retry_after) == ("rate_limit", 30.0)
    assert not [loss for loss in reply.losses if "retry" in loss.path]


@pytest.mark.parametrize("name", NAMES)
def test_googles_note_is_read_and_passed_on(name: str) -> None:
    reply = translate.error(429, NOTED, "gemini", name)
    assert reply.headers == {"retry-after": "35", "retry-after-ms": "34500"}
    assert reply.body == NOTED if name == "gemini" else reply.body != NOTED
    assert DIALECTS[name].decode_error(429, reply.body, reply.headers).retry_after == 34.5


@pytest.mark.parametrize("body", [NOTED, [NOTED]])
@pytest.mark.parametrize("name", ["gemini", "openai-chat"])
def test_of_googles_note_only_the_time_is_changed(name: str, body: Any) -> None:
    error = DIALECTS[name].decode_error(429, body)
    assert error.retry_after == 34.5
    assert DIALECTS[name].encode_error(error).body == body
    later = DIALECTS[name].encode_error(replace(error, retry_after=60.0)).body
    assert retry_info(later) == {"@type": RETRY_INFO, "retryDelay": "60s", "more": 1}
    details = (later[0] if isinstance(later, list) else later)["error"]["details"]
    assert [details[0], details[2]] == [NOTED["error"]["details"][0], NOTED["error"]["details"][2]]
    assert retry_info(DIALECTS[name].encode_error(replace(error, retry_after=None)).body) is None


@pytest.mark.parametrize("name", NAMES)
def test_in_a_stream_a_wait_is_said_or_lost_by_name(name: str) -> None:
    encoder = DIALECTS[name].encode_stream()
    data = encoder.feed(ErrorEnd(Error("rate_limit", "Slow.", retry_after=3.0))) + encoder.close()
    decoder = DIALECTS[name].decode_stream()
    events = decoder.feed(data) + decoder.close()
    (error,) = [event.error for event in events if isinstance(event, ErrorEnd)]
    lost = [loss.severity for loss in encoder.losses if loss.path == "retry_after"]
    assert (error.retry_after, lost) in [(3.0, []), (None, ["minor"])]
    assert (name == "gemini") == (error.retry_after is not None)


def test_no_wait_is_too_much_for_a_body() -> None:
    for seconds in (1e300, float("inf"), float("nan"), -1.0):
        reply = DIALECTS["gemini"].encode_error(Error("rate_limit", "Slow.", retry_after=seconds))
        assert reply.json
