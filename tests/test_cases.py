"""Inputs that once came out wrong, read where they lie: each is right now, and says so by what came of it.

`TOOLWIRE_CASES` says where they are, else `../shared/cases`; without them, `test_servers.py` has such inputs by hand.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.corpus import found
from tests.test_servers import decoded, frames, translated
from toolwire import ToolCall, dialect, translate
from toolwire.providers import provider_of

Case = dict[str, Any]


def runs(*calls: tuple[str, dict[str, Any]]) -> Callable[[Case], bool]:
    """Hold that these calls run, and that no other one does."""

    def check(case: Case) -> bool:
        told = decoded(case["source"], case["input"].encode())
        return [(call.name, call.arguments) for call in told.tool_calls] == [*calls]

    return check


def asked(case: Case, target: str = "") -> Any:
    """Give the body of a request in the target's wire."""
    return translate.request(case["input"], case["source"], target or case["target"]).body


def started(case: Case) -> Any:
    """Give the counts that a stream of Messages begins with, and those that it ends with."""
    told = frames(translated(case["input"].encode(), case["source"], "anthropic"))
    last = next(frame for frame in told if frame["type"] == "message_delta")
    return told[0]["message"]["usage"]["input_tokens"], last["usage"]["input_tokens"]


def counted(case: Case) -> int | None:
    usage = dialect(case["source"]).decode_response(case["input"]).usage
    return None if usage is None else usage.output_tokens


def joined(case: Case) -> bool:
    request = dialect("anthropic").decode_request(case["input"])
    bodies = [provider_of(name)[0].speaks().encode_request(request).body for name in ("deepseek", "groq")]
    return all(type(message["content"]) in (str, type(None)) for body in bodies for message in body["messages"])


def nine(case: Case) -> bool:
    request = dialect("openai-chat").decode_request(case["input"])
    call, result = provider_of("mistral")[0].speaks().encode_request(request).body["messages"][-2:]
    made = call["tool_calls"][0]["id"]
    return len(made) == 9 and made.isalnum() and result["tool_call_id"] == made


def linked(case: Case) -> bool:
    bodies = {target: json.dumps(asked(case, target)) for target in ("openai-responses", "anthropic", "gemini")}
    keys = {"openai-responses": "file_url", "anthropic": "url", "gemini": "fileUri"}
    return all(f'"{keys[target]}": "https://e.example/d.pdf"' in body for target, body in bodies.items())


def text_of(case: Case) -> Any:
    return asked(case)["messages"][0]["content"][1]["source"]


def summed(case: Case) -> str:
    deltas = [frame["choices"] for frame in frames(translated(case["input"].encode(), "anthropic", "openai-chat"))]
    calls = [call for choices in deltas for choice in choices for call in choice["delta"].get("tool_calls", ())]
    return "".join(call["function"]["arguments"] for call in calls)


def excused(case: Case) -> bool:
    [called] = [body for body in asked(case)["contents"] if body["role"] == "model"]
    return "thoughtSignature" in called["parts"][0]


def one_broken(case: Case) -> bool:
    """Hold that a call of two names is not run, under either."""
    told = decoded(case["source"], case["input"].encode())
    return not told.tool_calls and [type(call) for call in told.broken_calls] == [ToolCall]


READ, WEATHER = ("read_file", {"path": "a.ts"}), ("w", {"city": "Rome"})
RIGHT: dict[str, Callable[[Case], Any]] = {
    "delta-without-index": runs(("Bash", {"command": "git restore x"})),
    "developer-to-gemini": lambda case: asked(case)["systemInstruction"]["parts"][0]["text"] == "SYS",
    "file-url-in-file-data": linked,
    "finish-reason-empty": lambda case: (
        translate.response(case["input"], "openai-chat", "anthropic").body["stop_reason"] == "tool_use"
    ),
    "first-usage": lambda case: started(case) == (100, 100),
    "gemini-alias-signature": excused,
    "gemini-compat-hidden-thoughts": lambda case: counted(case) == 74,
    "index-left-out": lambda case: decoded("anthropic", case["input"].encode()).content == "Hello",
    "late-name": runs(READ),
    "late-name-empty": runs(READ),
    "mistral-ids": nine,
    "name-in-pieces": runs(READ),
    "no-arguments": lambda case: summed(case) == "{}",
    "no-finish-reason-but-done": runs(WEATHER),
    "replay-other-name": one_broken,
    "resp-response-done-instead-of-compl": runs(WEATHER, WEATHER),
    "text-plain-as-data": lambda case: text_of(case) == {"type": "text", "media_type": "text/plain", "data": "Hello"},
    "texts-as-list": joined,
    "usage-zeroed": lambda case: started(case) == (5, 5),
    "xai-reasoning-tokens": lambda case: counted(case) == 215,
}
# It only names a stream that lies elsewhere; `test_a_search_that_xai_ran_itself_is_no_call` has one like it.
WITHOUT_INPUT = {"xai-x-search"}


def test_each_case_is_looked_at() -> None:
    assert {path.stem for path in found("TOOLWIRE_CASES", "cases").glob("*.json")} <= RIGHT.keys() | WITHOUT_INPUT


@pytest.mark.parametrize("name", RIGHT)
def test_what_once_came_out_wrong_is_right(name: str) -> None:
    path = found("TOOLWIRE_CASES", "cases") / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"there is no case {name}")
    assert RIGHT[name](json.loads(path.read_bytes())) is True
