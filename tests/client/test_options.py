"""Options and settings that are misspelt or of a wrong kind: what is said of them, and what simply works."""

import logging
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.client.faces import FACES, KEY, awaited, get_weather, lead, options_at
from toolwire import (
    Audio,
    Cancel,
    Client,
    Context,
    Document,
    Image,
    LoopLimits,
    Message,
    Opaque,
    Request,
    Text,
    ToolCall,
    aio,
    dialect,
    generate,
    stream,
)
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.client.failures import AuthenticationFailed
from toolwire.client.foreign_names import FOREIGN_NAMES
from toolwire.client.options import CLIENT_OPTIONS, RUN_OPTIONS, SERVER_OPTIONS
from toolwire.errors import InvalidField, ToolwireError
from toolwire.providers import PROVIDERS, UnknownProvider
from toolwire.testing import simulate
from toolwire.wire.transport import Timeouts

NOWHERE = "http://127.0.0.1:9"
SETTINGS = (
    "tools system messages tool_choice provider_state capabilities model stream max_tokens temperature top_p stop seed "
    "thinking effort output metadata user approve limits running cancel context resolver traces clearing auto_tools "
    "terminal_tool on_event"
).split()


def refused(face: str, **settings: Any) -> str:
    """Say why a call is refused; nothing is sent."""
    with simulate([]) as model, pytest.raises(ToolwireError) as found:
        lead(face, "openai", model.url, "?", **settings)
    return str(found.value)


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("tool", "tools"), ("limts", "limits"), ("sytem", "system"), ("bas_url", "base_url")]
)
@pytest.mark.parametrize("face", FACES)
def test_a_misspelt_setting_lists_all_and_says_which_was_meant(face: str, misspelt: str, meant: str) -> None:
    said = refused(face, **{misspelt: 1})
    assert said.startswith(f"settings: {misspelt} is not a setting; did you mean {meant}? There are: ")
    listed = said.partition("There are: ")[2].split(", ")
    assert {*SETTINGS, "base_url", "api_key", "timeouts", "retries", "transport"} <= set(listed)
    assert not {"opaque", misspelt} & set(listed)


FOREIGN = {
    "max_completion_tokens": "use max_tokens=",
    "max_output_tokens": "use max_tokens=",
    "instructions": "use system=",
    "system_prompt": "use system=",
    "response_format": "use output=",
    "output_type": "use output=",
    "reasoning_effort": "use effort=",
    "message_history": "use messages=",
    "api_base": "use base_url=",
    "num_retries": "use retries=",
    "timeout": "use timeouts=",
    "deps": "use context=",
    "max_turns": "use max_iterations=",
    "maxOutputTokens": "use max_tokens=",
    "toolChoice": "use tool_choice=",
}


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("face", FACES)
def test_a_name_of_another_library_gets_the_name_here_first(face: str, foreign: str) -> None:
    said = refused(face, **{foreign: 1})
    assert said.startswith(f"settings: {foreign} is not a setting; {FOREIGN[foreign]}")
    assert ". There are: messages, " in said


def test_what_stands_for_a_foreign_name_is_a_setting_or_an_option_here() -> None:
    known = {*SETTINGS, *SERVER_OPTIONS, *CLIENT_OPTIONS, *RUN_OPTIONS, "provider", "thinking_budget", "cache_key"}
    for foreign, here in FOREIGN_NAMES.items():
        assert foreign not in known, foreign
        assert set(re.findall(r"\b([a-z_]+)=", here)) <= known, (foreign, here)


def test_a_setting_of_a_call_is_none_of_a_client() -> None:
    with pytest.raises(
        InvalidField, match=r"openai: tools is a setting of a call: client\.run\(\.\.\., tools=\.\.\.\)"
    ):
        Client("openai", "m", tools=[])  # type: ignore[call-arg]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "limits, a number": ({"limits": 5}, "settings: limits must be a LoopLimits, or a map of turns, tokens, "),
    "limits, misspelt": (
        {"limits": {"turn": 5}},
        r"limits: turn is not a field; did you mean turns\? There are: turns, ",
    ),
    "limits, a value of a wrong kind": ({"limits": LoopLimits(turns="5")}, "settings: limits cannot be used: .*turns"),  # type: ignore[arg-type]
    "limits, not a number": ({"limits": LoopLimits(cost=float("nan"))}, "limits: cost must be 0 or more, not nan"),
    "limits, below zero": ({"limits": {"seconds": -1}}, "limits: seconds must be 0 or more, not -1"),
    "limits, a word": ({"limits": {"turns": "x"}}, r"settings: limits cannot be used: .*turns"),
    "running": ({"running": "fast"}, "settings: running must be a Limits, or a map of timeout, "),
    "running, not a number": ({"running": {"timeout": float("nan")}}, "running: timeout must be 0 or more, not nan"),
    "timeouts, below zero": (
        {"options": {"timeouts": Timeouts(first=-1)}},
        "timeouts: first must be 0 or more, not -1",
    ),
    "bounds, below zero": ({"options": {"bounds": {"bytes": -1}}}, "bounds: bytes must be 0 or more, not -1"),
    "system": ({"system": [3]}, "settings: system must be a string, or a list of strings and parts"),
    "system, empty": ({"system": []}, "settings: system must be"),
    "tools, a number": ({"tools": 3}, "settings: tools must be tools in a list, or one tool, not 3"),
    "tools, a word": ({"tools": "look"}, "settings: tools must be tools in a list"),
    "messages": ({"messages": 3}, "settings: messages must be messages in a list"),
    "max_tokens": ({"max_tokens": "x"}, "settings: max_tokens has the wrong type: Expected `int"),
    "temperature": ({"temperature": "hot"}, "settings: temperature has the wrong type: Expected `float"),
    "temperature, none": ({"temperature": float("nan")}, "settings: temperature must be a finite number, not nan"),
    "top_p, endless": ({"top_p": float("-inf")}, "settings: top_p must be a finite number, not -inf"),
    "tool_choice": ({"tool_choice": "requird"}, "settings: tool_choice 'requird' is not .* did you mean required"),
    "tool_choice, a map": (
        {"tool_choice": {"type": "function", "function": {"name": "get_wether"}}, "tools": [get_weather]},
        "settings: tool_choice 'get_wether' is not a tool of this request; did you mean get_weather",
    ),
    "readers, a word": ({"options": {"readers": "bare_json"}}, "settings: readers must be a list of names, not 'bare"),
    "readers, a number": ({"options": {"readers": 3}}, "settings: readers must be a list of names, not 3"),
    "thinking": ({"thinking": True}, "settings: thinking has the wrong type: Expected `str"),
    "cancel": ({"cancel": 3}, "settings: cancel must be a Cancel"),
    "approve": (
        {"approve": 3},
        "settings: approve must be a function of a call and its preview, True, or names of tools",
    ),
    "approve, a word": ({"approve": "get_weather"}, "settings: approve must be a function of a call and its preview, "),
    "approve, misspelt": (
        {"approve": ["get_wether"], "tools": [get_weather]},
        r"settings: approve 'get_wether' is not a tool of this request; did you mean get_weather\? There are: ",
    ),
    "on_event": ({"on_event": 3}, "settings: on_event must be a function"),
    "capabilities": ({"capabilities": {"imges": False}}, "openai: imges is not a capability; did you mean images?"),
    "timeouts": ({"options": {"timeouts": "x"}}, "settings: timeouts must be a Timeouts, or a map of connect, "),
    "retries": ({"options": {"retries": {"atempts": 2}}}, "retries: atempts is not a field; did you mean attempts"),
    "headers": ({"options": {"headers": 3}}, "openai: headers must be a map"),
    "a header": ({"options": {"headers": {"x-count": 3}}}, r"openai: options cannot be used: .* at `\$\.headers"),
    "a quirk": ({"options": {"quirks": {1: 2}}}, r"openai: options cannot be used: .* at `.*\$\.quirks"),
    "env": ({"options": {"env": "KEY"}}, r"openai: options cannot be used: .* at `\$\.env"),
    "api_key": ({"options": {"api_key": 3}}, r"openai: options cannot be used: .* at `\$\.api_key"),
    "an option": (
        {"options": {"timeout": 5}},
        r"openai: timeout is not an option of a client; use timeouts=\. There are: name, ",
    ),
    "model": ({"model": 5}, "settings: model has the wrong type: Expected `str"),
    "model, bytes": ({"model": b"gpt"}, "settings: model has the wrong type: Expected `str"),
    "provider_state": ({"provider_state": 5}, "settings: provider_state has the wrong type: Expected `object"),
    "auto_tools": ({"auto_tools": "no"}, "settings: auto_tools has the wrong type: Expected `bool"),
    "terminal_tool": ({"terminal_tool": get_weather}, "settings: terminal_tool has the wrong type: Expected `str"),
    "max_iterations": ({"max_iterations": "x"}, "settings: max_iterations has the wrong type: Expected `int"),
    "max_iterations, below zero": ({"max_iterations": -1}, "max_iterations: turns must be 0 or more, not -1"),
    "fallback": ({"options": {"fallback": "no"}}, "settings: fallback has the wrong type: Expected `bool"),
    "resolver, a class of Python's own": ({"resolver": int}, "resolver: resolver must have `resolve`"),
    "a request": ({"prompt": Request(context=Context())}, "settings: prompt is a Request, which `Client.send` takes"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("face", FACES)
def test_a_value_of_a_wrong_kind_is_refused_with_its_place(face: str, case: str) -> None:
    given, said = WRONG[case]
    settings = dict(given)
    prompt = settings.pop("prompt", "?")
    with simulate([]) as model, pytest.raises(InvalidField, match=said):
        lead(face, "openai", model.url, prompt, **settings)


@pytest.mark.parametrize("kind", [sync.Client, aio.Client])
@pytest.mark.parametrize("provider", ["openai", PROVIDERS["openai"], None, ["openai", "groq"]])
def test_a_client_says_at_once_that_its_model_is_none(kind: Any, provider: Any) -> None:
    with pytest.raises(InvalidField, match="settings: model has the wrong type: Expected `str"):
        kind(provider, 5, api_key=KEY)


@pytest.mark.parametrize(
    "ask", [generate, stream, aio.stream, lambda *given, **more: awaited(aio.generate(*given, **more))]
)
def test_options_that_are_no_map_are_refused_by_name(ask: Any) -> None:
    with pytest.raises(InvalidField, match="settings: options must be a map of what a client takes, not 5"):
        ask("?", "openai", "m", options=5)


def test_what_is_wrong_with_a_stream_is_raised_where_it_is_asked_for() -> None:
    client = sync.Client("openai", "m", api_key=KEY, base_url=NOWHERE)
    with pytest.raises(InvalidField, match="on_event must be a function"):
        client.stream("?", on_event=3)  # type: ignore[call-overload]
    with pytest.raises(InvalidField, match="must be a Request, not str"):
        client.send_stream("?")  # type: ignore[arg-type]


SHORT: dict[str, dict[str, Any]] = {
    "one tool": {"tools": get_weather},
    "limits as a map": {"limits": {"turns": 3, "seconds": 60}},
    "running as a map": {"running": {"timeout": 5}},
    "a system of strings": {"system": ["Be brief.", Text("Be kind.")]},
    "one message": {"messages": "Before."},
    "one word to stop at": {"stop": "END"},
    "seconds": {"options": {"timeouts": 5}},
    "times": {"options": {"timeouts": {"first": 3}}},
    "attempts": {"options": {"retries": 2}},
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", SHORT)
@pytest.mark.parametrize("face", FACES)
def test_a_short_form_works(face: str, case: str) -> None:
    with simulate(["Yes."]) as model:
        assert lead(face, "anthropic", model.url, "?", **SHORT[case]).done.content == "Yes."
        body = str(model.requests[0].body)
    for words in ("Be brief.", "Be kind.") if "system" in case else ("Before.",) if "message" in case else ():
        assert words in body


def test_a_number_is_the_seconds_in_all_and_the_attempts() -> None:
    client = sync.Client("openai", "m", api_key=KEY, timeouts=5, retries={"attempts": 1})
    assert (client.upstream.timeouts, client.upstream.retries) == (Timeouts(total=5), Retries(attempts=1))


@pytest.mark.parametrize("face", FACES)
def test_options_of_the_provider_may_stand_beside_the_settings(face: str) -> None:
    with simulate(["One.", "Two."], api_key=KEY) as model:
        given: dict[str, Any] = {"base_url": model.url, "api_key": KEY, "timeouts": 30, "headers": {"x-a": "b"}}
        if face == "sync":
            assert generate("?", "openai", "m", **given).content == "One."
            assert stream("?", "openai", "m", **given).collect().content == "Two."
        else:

            async def main() -> list[str | None]:
                first = await aio.generate("?", "openai", "m", **given)
                return [first.content, (await aio.stream("?", "openai", "m", **given).collect()).content]

            assert awaited(main()) == ["One.", "Two."]


def test_an_option_that_a_call_of_a_client_is_given_says_where_it_belongs() -> None:
    client = sync.Client("openai", "m", api_key=KEY, base_url=NOWHERE)
    with pytest.raises(InvalidField, match=r"base_url is an option of the client: Client\(..., base_url=...\)"):
        client.run("?", base_url=NOWHERE)  # type: ignore[call-overload]
    with pytest.raises(InvalidField, match="limits is a setting of `run`, `stream` and `generate`, not of `chat`"):
        client.chat("?", limits=LoopLimits())  # type: ignore[call-arg]


NAMED: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    (("?", None, "openai"), InvalidField, "openai: model 'openai' is a provider: write openai/MODEL"),
    (("?", None, "gpt-4oo"), UnknownProvider, "unknown provider 'gpt-4oo'; did you mean gpt-4o? Known: openai, "),
    (("?", None, "my-own"), UnknownProvider, "write a model with its provider: PROVIDER/my-own. Known: openai, "),
    (("?", "my-own"), UnknownProvider, "write a model with its provider: PROVIDER/my-own. Known: openai, "),
    (("?", "opnai:gpt-4o"), UnknownProvider, "did you mean openai? Known: "),
    (("?", "opnai", "m"), UnknownProvider, "did you mean openai?"),
    (("?",), UnknownProvider, "pass provider=NAME, or model=PROVIDER/NAME"),
    (("?", "openai"), InvalidField, "openai: model is missing"),
]


@pytest.mark.parametrize(("given", "kind", "said"), NAMED)
def test_a_model_that_is_not_found_says_how_one_is_named(given: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as found:
        generate(*given, api_key=KEY)
    assert said in str(found.value)


@pytest.mark.parametrize("face", FACES)
def test_a_model_is_for_all_providers_of_a_list_that_name_none(face: str) -> None:
    with simulate([["One."], ["Two."]]) as model:
        broken = ("openai", {**options_at("openai", NOWHERE), "headers": {}})
        given = [broken, ("anthropic", options_at("anthropic", model.url))]
        assert lead(face, given, model.url, "?", model="theirs").done.content == "One."  # type: ignore[arg-type]
        with sync.Client(given, retries=1) as client:
            assert client.chat("?", model="called").content == "Two."
        assert [each.body["model"] for each in model.requests] == ["theirs", "called"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(PROVIDERS))
@pytest.mark.parametrize("face", FACES)
def test_without_a_key_nothing_leaves(face: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[name]
    for variable in provider.env:
        monkeypatch.delenv(variable, raising=False)
    sent = []

    class Noting:
        def send(self, request: Any, *_: Any) -> Any:
            sent.append(request)
            raise RuntimeError("sent")

        asend = send

    def ask() -> None:
        if face == "sync":
            sync.Client(name, "m", transport=Noting()).chat("my secret prompt")
        else:
            awaited(aio.Client(name, "m", transport=Noting()).chat("my secret prompt"))

    if provider.local:
        with pytest.raises(RuntimeError, match="sent"):
            ask()
        return
    with pytest.raises(AuthenticationFailed, match=f"there is no key: set {provider.env[0]}"):
        ask()
    assert sent == []


LOGINS: list[dict[str, Any]] = [
    {"api_key": "k"},
    {"api_key": ""},
    {"headers": {"Authorization": "Bearer k"}},
    {"headers": {"X-Api-Key": "k"}},
    {"query": {"key": "k"}},
    {"auth": None},
]


@pytest.mark.parametrize("login", LOGINS)
def test_another_login_is_a_key_as_well(login: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert not PROVIDERS["anthropic"].with_options(**login).lacks_key()
    assert PROVIDERS["anthropic"].with_options(base_url=NOWHERE).lacks_key()


PICTURE = Image("cat.png")
MEDIA: list[tuple[Any, bool]] = [
    (PICTURE, False),
    (Image("/pictures/cat.png"), False),
    (Image("C:\\cat.png"), False),
    (Image(""), False),
    (Document("a.pdf"), False),
    (Audio(url="a.wav"), False),
    (Image("https://x.example/cat.png"), True),
    (Image("data:image/png;base64,aW1hZ2U="), True),
    (Image("gs://bucket/cat.png"), True),
    (Image(data="aW1hZ2U=", media_type="image/png"), True),
    (Image("cat.png", opaque=Opaque("openai-chat", {})), True),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("part", "good"), MEDIA)
@pytest.mark.parametrize("face", FACES)
def test_a_path_is_no_url(face: str, part: Any, good: bool) -> None:
    messages = [Message("Before."), Message("user", [Text("Look."), part])]
    with simulate(["A cat."], strict=False) as model:
        if good:
            assert lead(face, "openai", model.url, messages).done.content == "A cat."
            return
        with pytest.raises(InvalidField, match=r"messages\[1\].content\[1\]: url is not a URL: .*data=BASE64"):
            lead(face, "openai", model.url, messages)
        with sync.Client("openai", "m", **options_at("openai", model.url)) as client:
            with pytest.raises(InvalidField, match="url is not a URL"):
                client.send(Request(context=Context(None, messages)))
            assert client.send(dialect("openai").decode_request({"messages": [{"role": "user", "content": "?"}]}))
        assert len(model.requests) == 1


def test_a_cancel_is_called_by_either_name() -> None:
    for stop in (Cancel(), Cancel()):
        (stop if stop.is_set() else stop.cancel)()
        assert stop.is_set()
    named = Cancel()
    named()
    assert named.is_set()


SCRIPT = """
from toolwire import ToolCall, generate
from toolwire.testing import simulate

def look(a: int) -> str:
    "Look."
    raise ValueError("it broke")

with simulate([[ToolCall(None, "look", {"a": 1})], "Sorry."]) as model:
    done = generate("?", "openai", "m", base_url=model.url, api_key="any", tools=look)
print(done.messages[1].parts[0].content)
"""


def test_a_tool_that_raises_prints_nothing_where_nobody_configured_logging() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=os.environ)
    assert (ran.stdout, ran.stderr) == ("Tool execution failed: it broke\n", "")


def test_a_tool_that_raises_is_logged_for_who_listens(caplog: pytest.LogCaptureFixture) -> None:
    def look(a: int) -> str:
        """Look."""
        raise ValueError(f"it broke at {a}")

    with caplog.at_level(logging.ERROR, "toolwire"), simulate([[ToolCall(None, "look", {"a": 1})], "Sorry."]) as model:
        lead("sync", "openai", model.url, "?", tools=[look])
    assert "Traceback" in caplog.text
    assert "it broke at 1" in caplog.text


def test_an_end_without_an_answer_says_what_to_do() -> None:
    with simulate([[ToolCall(None, "get_weather", {"city": "Oz"})]]) as model:
        done = lead("sync", "openai", model.url, "?", tools=[get_weather], limits={"turns": 1}).done
    assert (done.ending, done.reason) == ("limit", "no answer after 1 turn; LoopLimits(turns=...) allows more")
