"""Stored answers of Responses, whoever has made them: gone on from, shown, forgotten and summed up."""

import json
from typing import Any

import openai
import pytest
from openai._base_client import SyncHttpxClientWrapper

from tests.gateway.conftest import Playing
from tests.gateway.standing import KEY, NAMES, TWO_WIRES, WIRES, There, at, post, send, standing
from tests.gateway.test_keys import Guarded, guarded
from tests.testing.sdks import TLS
from toolwire.gateway.memory import MemoryPart, ProcessMemory
from toolwire.gateway.response_store import inline_history
from toolwire.gateway.stored_turns import Turns
from toolwire.testing import Cut, Fail, Scenario, simulate
from toolwire.types import Error, Text, Thinking, ToolCall

__all__ = ["guarded"]

FOREIGN = tuple(wire for wire in WIRES if wire != "openai-responses")
TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


def client_of(url: str, key: str = "key") -> openai.OpenAI:
    """Give OpenAI's own client."""
    http = SyncHttpxClientWrapper(verify=TLS)
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, http_client=http)


def said(received: Any) -> list[tuple[str, str]]:
    """Give what a model was told, message by message."""
    return [(one.role, "" if one.role == "tool" else one.text) for one in received.request.messages]


def asked(client: openai.OpenAI, *, stream: bool, **body: Any) -> Any:
    """Ask, and give the whole answer."""
    if not stream:
        return client.responses.create(**body)
    with client.responses.stream(**body) as events:
        for _ in events:
            continue
        return events.get_final_response()


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", FOREIGN)
def test_a_conversation_goes_on_from_an_answer_of_any_wire(wire: str, stream: bool, strict_model: Playing) -> None:
    with strict_model([[Text("I look."), ToolCall(None, "look", {})], ["Two."], ["Three."]]) as stood:
        client, body = client_of(stood.url), dict[str, Any](model=f"{NAMES[wire]}/m", tools=[TOOL])
        first = asked(client, stream=stream, input="Hello", **body)
        [call] = [item for item in first.output if item.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
        second = asked(client, stream=stream, input=[result], previous_response_id=first.id, **body)
        third = asked(client, stream=stream, input="More", previous_response_id=second.id, **body)
        assert (second.output_text, third.output_text) == ("Two.", "Three.")
        assert len({first.id, second.id, third.id}) == 3
        told = said(stood.requests[2])
        assert [text for _, text in told if text] == ["Hello", "I look.", "Two.", "More"]
        assert "previous_response_id" not in (stood.requests[2].body or {})
        got = client.responses.retrieve(second.id)
        assert (got.id, got.output_text, got.status) == (second.id, "Two.", "completed")
        listed = client.responses.input_items.list(third.id)
        assert [item.content for item in listed.data] == ["More"]  # type: ignore[union-attr]
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as lost:  # its beginning is gone
            client.responses.create(input="More", previous_response_id=third.id, model=body["model"])
        assert lost.value.code == "previous_response_not_found"


def reference(item: Any) -> Any:
    return {"type": "item_reference", "id": item.id}


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("wire", "then"), [("anthropic", "anthropic"), ("gemini", "openai-responses")])
def test_items_are_referred_to_instead_of_repeated(wire: str, then: str, stream: bool, strict_model: Playing) -> None:
    """As AI SDK does (@ai-sdk/openai 3.0.141), unless it is told that nothing is stored."""
    turns = [[Thinking("Hm."), Text("I look."), ToolCall(None, "look", {})], ["Two."], ["Three."], ["Four."]]
    with strict_model(turns) as stood:
        client, body = client_of(stood.url), dict[str, Any](model=f"{NAMES[wire]}/m", tools=[TOOL])
        first = asked(client, stream=stream, input="Hello", **body)
        call = first.output[-1]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
        given = [{"role": "user", "content": "Hello"}, *map(reference, first.output), result]
        second = asked(client, stream=stream, input=given, **body)
        body["model"] = f"{NAMES[then]}/m"
        asked(client, stream=stream, input="On", previous_response_id=second.id, **body)
        assert [text for _, text in said(stood.requests[-1]) if text] == ["Hello", "I look.", "Two.", "On"]
        more: Any = [*given, *map(reference, second.output), {"role": "user", "content": "More"}]
        asked(client, stream=stream, input=more, **body)
        told: Any = stood.requests[-1].request
        texts = [one.text for one in told.messages if one.text and one.role != "tool"]
        assert texts == ["Hello", "I look.", "Two.", "More"]
        assert [call.name for message in told.messages for call in message.tool_calls] == ["look"]


def test_an_item_that_is_not_kept_is_not_found(strict_model: Playing) -> None:
    with strict_model([["One."], ["Two."]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model="anthropic/m", input="Hello", store=False)
        second = client.responses.create(model="anthropic/m", input="Hello")
        client.responses.delete(second.id)
        for answer in (first, second):
            with pytest.raises(openai.NotFoundError, match=f"Item with id '{answer.output[0].id}' not found"):
                client.responses.create(model="anthropic/m", input=[reference(answer.output[0])])
        assert len(stood.requests) == 2


@pytest.mark.parametrize("before", ["", ', "previous_response_id": "resp_0"'])
def test_a_number_that_nobody_can_read_is_refused(before: str, strict_model: Playing) -> None:
    with strict_model([["One."]]) as stood:
        first = client_of(stood.url).responses.create(model="anthropic/m", input="Hello")
        items = '[{"type": "item_reference", "id": 1e999}]'
        body = f'{{"model": "anthropic/m", "input": {items}{before.replace("resp_0", first.id)}}}'
        assert post(stood.url, "/v1/responses", body.encode()).status == 400


@pytest.mark.parametrize("wire", FOREIGN)
def test_a_kept_answer_is_told_again_as_a_stream(wire: str, strict_model: Playing) -> None:
    with strict_model([[Text("I look."), ToolCall(None, "look", {})]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model=f"{NAMES[wire]}/m", input="Hello", tools=[TOOL])
        events = list(client.responses.retrieve(first.id, stream=True))
        assert events[0].type == "response.created"
        assert events[-1].type == "response.completed"
        assert events[-1].response.output == first.output
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "I look."
        numbers = [event.sequence_number for event in events]
        assert numbers == list(range(len(events)))
        for seen in (0, 3, len(events) - 2, len(events) - 1, 10**6):
            rest = client.responses.retrieve(first.id, stream=True, starting_after=seen)
            assert [event.sequence_number for event in rest] == (numbers[seen + 1 :] or numbers[-1:])
        with client.responses.stream(response_id=first.id) as told:
            assert told.get_final_response().output_text == "I look."


def test_what_was_asked_is_listed_page_by_page(strict_model: Playing) -> None:
    with strict_model([["One."]]) as stood:
        client = client_of(stood.url)
        given: Any = [{"role": "user", "content": f"Number {number}"} for number in range(45)]
        first = client.responses.create(model="gemini/m", input=given)
        words = [item["content"] for item in given]
        for order, expected in ((openai.omit, words[::-1]), ("desc", words[::-1]), ("asc", words)):
            items = client.responses.input_items.list(first.id, order=order)  # type: ignore[arg-type]
            assert (len(items.data), items.has_more) == (20, True)
            assert [item.content for item in items] == expected  # type: ignore[union-attr]
        assert [item.content for item in client.responses.input_items.list(first.id, limit=2).data] == words[:-3:-1]  # type: ignore[union-attr]


HELD: list[tuple[int, str, bytes, int, str]] = [
    (200, "application/json", b'{"id": "resp_1", "object": "response", "odd": 1.0}', 200, '"odd": 1.0'),
    (200, "text/event-stream", b"event: a\ndata: {}\n\n", 200, "event: a"),
    (200, "application/json", b'{"id": "resp_1", "output": "is it %s?"}' % KEY.encode(), 200, "is it [hidden]?"),
    (401, "application/json", b'{"error": {"message": "no key %s"}}' % KEY.encode(), 401, "no key [hidden]"),
    (502, "text/html", b"<html>%s" % KEY.encode(), 502, "<html>[hidden]"),
    (500, "text/plain", b"", 500, "openai-responses answered with 500 and no word"),
    (302, "text/html", b"<html>", 502, "openai-responses answered with 302 (text/html), which is no answer"),
]


@pytest.mark.parametrize(("status", "kind", "body", "told", "words"), HELD)
def test_what_its_own_provider_holds_is_asked_of_it_as_the_client_asks(
    status: int, kind: str, body: bytes, told: int, words: str, strict_model: Playing
) -> None:
    with strict_model([["One."]]) as stood:
        first = client_of(stood.url).responses.create(model="openai-responses/m", input="Hello")
        tools = stood.gateway.context
        before, there = tools.transport, There(status, {"content-type": kind}, [body])
        tools.transport = there
        try:
            query = "stream=true&starting_after=7&include[]=a%26b&key2=x&api=y"
            answered = send(stood.url, "GET", f"/v1/responses/{first.id}?{query}", None)
        finally:
            tools.transport = before
        assert there.url.partition("?")[2] == "stream=true&starting_after=7&include%5B%5D=a%26b"
        assert (answered.status, words in answered.data.decode()) == (told, True), answered
        assert KEY.encode() not in answered.data
        if told >= 400:
            assert answered.headers["content-type"] == "application/json"
            assert json.loads(answered.data)["error"]["message"]


@pytest.mark.parametrize("wire", FOREIGN)
def test_what_is_not_to_be_stored_is_not(wire: str, strict_model: Playing) -> None:
    with strict_model([["One."]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model=f"{NAMES[wire]}/m", input="Hello", store=False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as lost:
            client.responses.create(model=f"{NAMES[wire]}/m", input="More", previous_response_id=first.id)
        assert (lost.value.code, lost.value.param) == ("previous_response_not_found", "previous_response_id")


def test_what_its_own_provider_holds_passes(strict_model: Playing) -> None:
    with strict_model([["One."], ["Two."]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model="openai-responses/m", input="Hello")
        assert client.responses.retrieve(first.id).output_text == "One."
        second = client.responses.create(model="openai-responses/m", input="More", previous_response_id=first.id)
        assert second.output_text == "Two."
        sent = next(one.body for one in reversed(stood.requests) if one.method == "POST")
        assert (sent or {})["previous_response_id"] == first.id
        assert (sent or {})["input"] == "More"


@pytest.mark.parametrize("wire", FOREIGN)
def test_an_answer_that_is_whole_cannot_be_cancelled(wire: str, strict_model: Playing) -> None:
    with strict_model([["One."]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model=f"{NAMES[wire]}/m", input="Hello")
        with pytest.raises(openai.BadRequestError, match="background"):
            client.responses.cancel(first.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.cancel("resp_unknown")
        assert post(stood.url, f"/v1/responses/{first.id}/input_items", b"{}").status == 405


def test_a_conversation_changes_its_provider(strict_model: Playing) -> None:
    with strict_model([["One."], ["Two."], ["Three."]]) as stood:
        client = client_of(stood.url)
        first = client.responses.create(model="anthropic/m", input="Hello")
        second = client.responses.create(model="openai-responses/m", input="More", previous_response_id=first.id)
        third = client.responses.create(model="openai-responses/m", input="Again", previous_response_id=second.id)
        assert third.output_text == "Three."
        sent = [one.body or {} for one in stood.requests]
        assert "previous_response_id" not in sent[1]
        assert [item.get("role") for item in sent[1]["input"]] == ["user", "assistant", "user"]
        assert all("id" not in item for item in sent[1]["input"])
        assert sent[2]["previous_response_id"] == second.id
        with pytest.raises(openai.BadRequestError) as lost:  # another wire's model has nothing of what OpenAI holds
            client.responses.create(model="gemini/m", input="More", previous_response_id=third.id)
        assert lost.value.code == "previous_response_not_found"


def test_who_holds_an_answer_and_fails_is_told_and_not_that_nobody_holds_it() -> None:
    with simulate([["One."], Fail(Error("server", "broken", 500))], strict=True) as model:
        settings = '[routes.r]\nto = ["openai-responses/m", "gemini/m"]\n'
        with standing(model.url, settings) as stood:
            client = client_of(stood.url)
            first = client.responses.create(model="openai-responses/m", input="Hello")
            with pytest.raises(openai.InternalServerError, match="broken"):
                client.responses.create(model="r", input="More", previous_response_id=first.id)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("other", ["gemini/m", "other/m"])
def test_who_holds_an_answer_and_is_away_is_gone_on_from_by_the_next(other: str, stream: bool) -> None:
    turns = [["One."], ["Two."], Fail(Error("server", "broken", 500))]
    with simulate(turns, strict=True) as model, simulate([["Three."], ["Four."]], strict=True) as second:
        names = {"gemini": "gemini", "other": "openai-responses"}
        providers = {name: at(second.url, wire).with_options(name=name) for name, wire in names.items()}
        settings = f'[routes.r]\nto = ["openai-responses/m", "{other}"]\n'
        with standing(model.url, settings, providers) as stood:
            client = client_of(stood.url)
            one = asked(client, stream=stream, model="r", input="Hello")
            two = asked(client, stream=stream, model="r", input="More", previous_response_id=one.id)
            assert (model.requests[1].body or {})["previous_response_id"] == one.id
            for words, previous in (("Three.", two), ("Four.", two)):
                answer = asked(client, stream=stream, model="r", input="Again", previous_response_id=previous.id)
                assert answer.output_text == words
            told = [
                ("user", "Hello"),
                ("assistant", "One."),
                ("user", "More"),
                ("assistant", "Two."),
                ("user", "Again"),
            ]
            assert [said(request) for request in second.requests] == [told, told]
            assert len(model.requests) == 3, "who was away is left alone for a while"


@pytest.mark.parametrize("wire", FOREIGN)
def test_a_conversation_is_summed_up_by_any_model(wire: str, strict_model: Playing) -> None:
    with strict_model([["They said gr\u00fcn."], ["Two."]]) as stood:
        client, model = client_of(stood.url), f"{NAMES[wire]}/m"
        given: Any = [{"role": "user", "content": "Say gr\u00fcn"}, {"role": "assistant", "content": "Gr\u00fcn."}]
        short = client.responses.compact(model=model, input=given)
        assert short.object == "response.compaction"
        assert [item.type for item in short.output] == ["message", "compaction"]
        assert said(stood.requests[0])[-1][1].startswith("Sum up the conversation")
        items: Any = [item.to_dict(warnings=False) for item in short.output]
        second = client.responses.create(model=model, input=[*items, {"role": "user", "content": "More"}])
        assert second.output_text == "Two."
        words = "\n".join(text for _, text in said(stood.requests[1]))
        assert "They said gr\u00fcn." in words
        assert "toolwire-summary" not in json.dumps(stood.requests[1].body)
        changed: Any = [{**items[-1], "encrypted_content": "toolwire-summary:gr\u00fcn"}]
        with pytest.raises(openai.BadRequestError, match="has been changed"):
            client.responses.create(model=model, input=changed)


def test_a_summary_of_ours_is_words_to_its_own_wire(strict_model: Playing) -> None:
    with strict_model([["Short."], ["Two."]]) as stood:
        client = client_of(stood.url)
        short = client.responses.compact(model="gemini/m", input="Hello")
        items: Any = [item.to_dict(warnings=False) for item in short.output]
        client.responses.create(model="openai-responses/m", input=items)
        assert "Short." in json.dumps(stood.requests[1].body)
        assert "compaction" not in json.dumps(stood.requests[1].body)


def test_an_error_of_the_summing_model_is_told(strict_model: Playing) -> None:
    with strict_model([]) as stood:
        answered = post(stood.url, "/v1/responses/compact", b'{"model": "nobody/m", "input": "Hello"}')
        assert answered.status == 404
        assert json.loads(answered.data)["error"]["code"] == "model_not_found"


def test_two_providers_of_one_wire_hold_their_own() -> None:
    with simulate([["One."]], strict=True) as there, simulate([["Two."]], strict=True) as other:
        providers = {"other": at(other.url, "openai-responses").with_options(name="other")}
        with standing(there.url, providers=providers) as stood:
            client = client_of(stood.url)
            first = client.responses.create(model="openai-responses/m", input="Hello")
            client.responses.create(model="other/m", input="Something else")
            assert client.responses.retrieve(first.id).output_text == "One."


@pytest.mark.parametrize("wire", TWO_WIRES)
def test_an_answer_belongs_to_the_key_that_asked_for_it(wire: str, guarded: Guarded) -> None:
    mine, yours = (client_of(guarded.stood.url, guarded.make()) for _ in range(2))
    model = f"{NAMES[wire]}/m"
    first = mine.responses.create(model=model, input="Hello")
    asked_for = len(guarded.model.requests)
    for ask in (
        lambda: yours.responses.retrieve(first.id),
        lambda: yours.responses.delete(first.id),
        lambda: yours.responses.input_items.list(first.id),
        lambda: yours.responses.cancel(first.id),
        lambda: yours.responses.create(model=model, input="More", previous_response_id=first.id),
    ):
        with pytest.raises(openai.APIStatusError) as refused:
            ask()
        assert refused.value.status_code in (400, 404)
    assert refused.value.code == "previous_response_not_found"
    assert len(guarded.model.requests) == asked_for, "no provider is asked for what is another key's"
    assert mine.responses.create(model=model, input="More", previous_response_id=first.id).output_text == "Hello."


def test_what_is_gone_on_from_is_reserved_and_guessed_as_well(guarded: Guarded) -> None:
    client = client_of(guarded.stood.url, guarded.make(tokens="100000/day"))
    guarded.model.play(Scenario([["One."], ["Two.", Cut()]]))
    long = client.responses.create(model="openai/m", input="word " * 4000, max_output_tokens=9)
    with client.responses.stream(model="openai/m", input="More", previous_response_id=long.id) as events:
        assert list(events)[-1].type == "response.failed"
    assert guarded.stood.seen[-1]["estimated"]
    assert guarded.stood.seen[-1]["input_tokens"] >= 5000
    tight = client_of(guarded.stood.url, guarded.make(budget="0.005/day"))
    guarded.model.play(Scenario(["One."]))
    first = tight.responses.create(model="openai/m", input="word " * 1200, max_output_tokens=9)
    assert first.usage is not None
    with pytest.raises(openai.RateLimitError):  # 6,000 bytes again are 2,000 tokens, and there are 4,096 for the answer
        tight.responses.create(model="openai/m", input="More", previous_response_id=first.id, max_output_tokens=1000)


async def _placed(owner: str, memory: ProcessMemory) -> bytes | None:
    from toolwire.gateway.response_store import turn_of_answer
    from toolwire.providers import PROVIDERS
    from toolwire.wire.bodies import members_of

    place = Turns([MemoryPart(memory)], "mine")
    answer = {
        "id": "resp_1",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": []}],
    }
    name, kept = turn_of_answer(members_of(b'{"input": "Hello"}'), json.dumps(answer).encode(), "anthropic")
    assert kept is not None
    await place.keep(name, kept)
    body = b'{"model": "m", "input": "More", "previous_response_id": "resp_1"}'
    return inline_history(await Turns([MemoryPart(memory)], owner).earlier("resp_1"), body, PROVIDERS["anthropic"], {})


@pytest.mark.parametrize(
    ("owner", "size", "found"), [("mine", 1 << 20, True), ("yours", 1 << 20, False), ("mine", 10, False)]
)
def test_a_turn_is_found_by_its_own_key_and_is_bounded(owner: str, size: int, found: bool) -> None:
    import asyncio

    assert (asyncio.run(_placed(owner, ProcessMemory(size, 60))) is not None) is found
