"""The limits of a WebSocket at their edges: messages that are added to an answer, lanes, and names of lanes."""

import threading
from collections import Counter
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import standing
from tests.gateway.test_sockets import begun, create, heard, opened, steer, text_of
from toolwire.testing import Scenario, Wait, simulate
from toolwire.types import Text

ADDED, FAILED = "response.steer.accepted", "response.steer.failed"


@pytest.mark.parametrize(("count", "accepted"), [(15, 15), (16, 16), (17, 16)])
def test_an_answer_takes_sixteen_messages_while_it_comes(count: int, accepted: int, strict_model: Playing) -> None:
    with strict_model([[Text("One"), Wait(0.4), Text(".")], ["Two."]]) as stood, opened(stood.url) as socket:
        create(socket, input="Hello")
        first = begun(socket)
        for number in range(count):
            steer(socket, first, f"added {number}")
        events = heard(socket)
        kinds = Counter(event["type"] for event in events)
        assert (kinds[ADDED], kinds[FAILED]) == (accepted, count - accepted)
        codes = [event["error"]["code"] for event in events if event["type"] == FAILED]
        assert codes == ["too_many_pending_steers"] * (count - accepted)
        returned = [event["steer"]["input"] for event in events if event["type"] == FAILED]
        assert returned == [f"added {number}" for number in range(accepted, count)]
        assert text_of(heard(socket)[-1]) == "Two."
        received = stood.requests[1].request
        assert received is not None
        words = "|".join(message.text for message in received.messages)
        assert [f"added {number}" in words for number in range(count)] == [number < accepted for number in range(count)]


@pytest.mark.parametrize(("count", "refused"), [(31, 0), (32, 0), (33, 1)])
def test_a_connection_has_thirty_two_lanes(count: int, refused: int) -> None:
    answering = threading.Event()

    def play(_request: Any, _turn: int) -> list[Any]:
        answering.wait(10)
        return ["One."]

    with simulate(Scenario(play, complete=False)) as model, standing(model.url) as stood, opened(stood.url) as socket:
        for number in range(count):
            create(socket, input="Hello", stream_id=f"{number}")
        codes = [heard(socket)[-1]["error"]["code"] for _ in range(refused)]
        answering.set()
        answered = {heard(socket)[-1]["stream_id"] for _ in range(count - refused)}
    assert codes == ["too_many_streams"] * refused
    assert answered == {f"{number}" for number in range(count - refused)}


@pytest.mark.parametrize(("length", "taken"), [(0, False), (1, True), (255, True), (256, True), (257, False)])
def test_the_name_of_a_lane_has_up_to_256_characters(length: int, taken: bool, strict_model: Playing) -> None:
    with strict_model([["One."]] if taken else []) as stood, opened(stood.url) as socket:
        create(socket, input="Hello", stream_id="x" * length)
        event = heard(socket)[-1]
        assert (event["type"] == "response.completed") is taken
        assert taken or event["error"]["message"] == "stream_id: must be a text of up to 256 characters"
