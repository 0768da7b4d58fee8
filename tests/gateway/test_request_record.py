"""The record of a request: what a line of the log says."""

import msgspec

from toolwire.gateway.request_record import RequestRecord

RECORD = RequestRecord(
    request="tw_1",
    key="k1",
    path="/v1/messages",
    wire="anthropic",
    status=200,
    model="claude",
    goal="openrouter/anthropic/claude",
    ending="continued",
    seconds=0.25,
    input_tokens=3,
    output_tokens=None,
    guessed=False,
    cost=0.0,
)
LINE = (
    '{"request":"tw_1","key":"k1","path":"/v1/messages","wire":"anthropic","status":200,"model":"claude",'
    '"goal":"openrouter/anthropic/claude","ending":"continued","seconds":0.25,"input_tokens":3,"output_tokens":null,'
    '"guessed":false,"cost":0.0'
)


def test_a_line_of_the_log_has_every_field_in_order() -> None:
    assert msgspec.json.encode(RECORD).decode() == LINE + "}"


def test_providers_that_continued_an_answer_come_last() -> None:
    record = msgspec.structs.replace(RECORD, went_on=["gemini/x"])
    assert msgspec.json.encode(record).decode() == LINE + ',"went_on":["gemini/x"]}'


def test_a_goal_is_a_provider_and_its_model() -> None:
    assert (RECORD.provider, RECORD.provider_model) == ("openrouter", "anthropic/claude")
    nobody = msgspec.structs.replace(RECORD, goal="")
    assert (nobody.provider, nobody.provider_model) == ("", "")
