"""The record of a request: what a line of the log says."""

import msgspec

from toolwire.gateway.request_record import RequestRecord

RECORD = RequestRecord(
    time="2026-11-27T12:00:00.000Z",
    request="tw_1",
    key="k1",
    key_name="ann",
    path="/v1/messages",
    wire="anthropic",
    status=200,
    model="claude",
    provider="openrouter/anthropic/claude",
    ending="continued",
    seconds=0.25,
    input_tokens=3,
    output_tokens=None,
    estimated=False,
    cost=0.0,
)
LINE = (
    '{"time":"2026-11-27T12:00:00.000Z","request":"tw_1","key":"k1","key_name":"ann","path":"/v1/messages","wire":"anthropic","status":200,"model":"claude",'
    '"provider":"openrouter/anthropic/claude","ending":"continued","seconds":0.25,"input_tokens":3,"output_tokens":null,'
    '"estimated":false,"cost":0.0'
)


def test_a_line_of_the_log_has_every_field_in_order() -> None:
    assert msgspec.json.encode(RECORD).decode() == LINE + "}"


def test_cached_tokens_follow_the_others() -> None:
    record = msgspec.structs.replace(RECORD, cache_read_tokens=2, cache_write_tokens=0)
    line = LINE.replace('"output_tokens":null,', '"output_tokens":null,"cache_read_tokens":2,"cache_write_tokens":0,')
    assert msgspec.json.encode(record).decode() == line + "}"


def test_tokens_that_were_written_for_long_follow_those_that_were_written() -> None:
    record = msgspec.structs.replace(RECORD, cache_read_tokens=2, cache_write_tokens=7, cache_write_long_tokens=3)
    cached = '"cache_read_tokens":2,"cache_write_tokens":7,"cache_write_long_tokens":3,'
    line = LINE.replace('"output_tokens":null,', f'"output_tokens":null,{cached}')
    assert msgspec.json.encode(record).decode() == line + "}"


def test_providers_that_continued_an_answer_come_last() -> None:
    record = msgspec.structs.replace(RECORD, continued_by=["gemini/x"])
    assert msgspec.json.encode(record).decode() == LINE + ',"continued_by":["gemini/x"]}'


def test_the_provider_and_its_model_are_read_from_one_field() -> None:
    assert (RECORD.provider_name, RECORD.provider_model) == ("openrouter", "anthropic/claude")
    nobody = msgspec.structs.replace(RECORD, provider="")
    assert (nobody.provider_name, nobody.provider_model) == ("", "")
