"""What a client could not say to its provider: in the response, in the end of a run, and in the log once."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, awaited, chat, get_weather, lead, options_at
from toolwire import CodeTools, ToolCall, aio, dialect, traces
from toolwire.cli.chosen_model import client_of
from toolwire.client import sync
from toolwire.testing import simulate


@pytest.mark.sampled
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


@pytest.mark.parametrize("face", FACES)
def test_a_loss_of_meaning_is_logged_once_for_its_kind(face: str, caplog: pytest.LogCaptureFixture) -> None:
    def asked(client: Any) -> list[Any]:
        return [
            client.chat("?", seed=1),
            client.chat(["?", "And?"], seed=2),
            client.chat("?", seed=1, logit_bias={"1": 1}),
            client.chat("?"),
        ]

    with simulate(["Yes."] * 4) as model, caplog.at_level(logging.WARNING, "toolwire"):
        given = options_at("anthropic", model.url)
        if face == "sync":
            with sync.Client("anthropic", "m", **given) as client:
                answers = asked(client)
        else:

            async def main() -> list[Any]:
                async with aio.Client("anthropic", "m", **given) as client:
                    return [await answer for answer in asked(client)]

            answers = awaited(main())
    said = [record.getMessage() for record in caplog.records]
    assert [(record.name, record.levelname) for record in caplog.records] == [("toolwire", "WARNING")] * 2
    assert said[0] == "anthropic/m: losses of the request: seed: anthropic has no such setting (dropped)"
    assert "logit_bias" in said[1]
    assert all(loss.severity != "semantic" for loss in answers[-1].losses)


def test_a_rule_of_a_schema_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with simulate(["Yes."]) as model, caplog.at_level(logging.WARNING, "toolwire"):
        done = lead("sync", "ollama", model.url, "?", tools=[get_weather]).done
    assert [loss.concept for loss in done.losses] == ["schema_additionalProperties"]
    assert caplog.records == []


def test_a_trace_holds_the_losses_of_meaning_alone(tmp_path: Path) -> None:
    files = CodeTools(str(tmp_path))
    with traces.open(f"sqlite:///{tmp_path}/t.db") as store:
        with simulate([[ToolCall(None, "list_directory", {})], "Yes."]) as model:
            done = lead("sync", "anthropic", model.url, "?", tools=files, traces=store, seed=1).done
        assert any(loss.severity != "semantic" for loss in done.losses)
        (trace,) = store.traces().rows
    assert trace.losses == ("seed: anthropic has no such setting (dropped)",)


def test_who_shows_losses_need_not_have_them_logged(caplog: pytest.LogCaptureFixture) -> None:
    with simulate(["Yes."]) as model, caplog.at_level(logging.WARNING, "toolwire"):
        client = client_of("anthropic", "m", model.url)
        client.provider = client.upstream.provider = client.provider.with_options(api_key="any")
        with client:
            assert client.chat("?", seed=1).losses
    assert caplog.records == []
