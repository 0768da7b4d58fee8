"""What a client could not say to its provider: in the response, in the end of a run, and in the log once."""

from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, chat, lead
from toolwire import dialect
from toolwire.testing import simulate


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("face", FACES)
def test_an_answer_says_what_its_request_could_not(face: str, name: str) -> None:
    asked: dict[str, Any] = {"seed": 7, "logit_bias": {"1": 1}, "top_k": 3}
    with simulate(["Yes.", "Yes.", "Yes."]) as model:
        response = chat(face, name, model.url, "?", **asked)
        done = lead(face, name, model.url, "?", **asked).done
        shown = lead(face, name, model.url, "?", shown=True, **asked).done
    lost = {loss.path for loss in response.losses}
    assert lost & set(asked) == asked.keys() - SAID[dialect(name).DIALECT]
    assert response.losses == done.losses == done.response.losses
    assert set(response.losses) <= set(shown.losses)


SAID: dict[str, set[str]] = {
    "openai-chat": {"seed", "logit_bias"},
    "openai-responses": set(),
    "anthropic": set(),
    "gemini": {"seed", "top_k"},
    "ollama": {"seed", "top_k"},
}
