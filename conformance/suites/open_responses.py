"""Open Responses: the cases of its compliance test (https://github.com/openresponses/openresponses).

The test is a program of Bun, so that `conformance/open_responses.json` has its cases and what each wants. Responses and
stream events are judged by the types of `openresponses-types`.
"""

import json
import urllib.error
import urllib.request
from typing import Any

import msgspec

from conformance.environments import ROOT, run_script, version_of
from conformance.gateways import UPSTREAMS, gateway
from conformance.outcomes import Outcome, Suite

_MODEL = "gpt-5"
_LAST = ("response.completed", "response.failed", "response.incomplete")
# The events that the stream of a call has, and the type of their item.
_CALL_EVENTS = (
    ("response.output_item.added", "function_call"),
    ("response.function_call_arguments.delta", None),
    ("response.function_call_arguments.done", None),
    ("response.output_item.done", "function_call"),
)


class Exchange(msgspec.Struct, frozen=True):
    """The answer to a request: the response, the events of a stream, or the error."""

    response: dict[str, Any]
    events: list[dict[str, Any]]
    error: str = ""


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run the cases in front of each upstream; a short run has two upstreams."""
    cases = json.loads((ROOT / "conformance" / "open_responses.json").read_text("utf-8"))["cases"]
    version = version_of("open-responses", "openresponses-types")
    asked: list[tuple[str, dict[str, Any], Exchange]] = []
    for upstream in UPSTREAMS[1:3] if short else UPSTREAMS:
        with gateway(upstream) as url:
            asked += [(upstream, case, exchange(url, case["body"])) for case in cases]
    bodies = [{"response": each.response, "events": each.events} for _, _, each in asked]
    judged = json.loads(run_script("open-responses", ["-m", "conformance.judges.open_responses"], bodies))
    return version, [
        outcome(upstream, case, each, complaints)
        for (upstream, case, each), complaints in zip(asked, judged, strict=True)
    ]


def exchange(url: str, body: dict[str, Any]) -> Exchange:
    """Send `body` to the gateway's Responses wire, and return what came back."""
    data = json.dumps({"model": _MODEL, **body}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer any"}
    request = urllib.request.Request(f"{url}/v1/responses", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        return Exchange({}, [], f"HTTP {error.code}: {error.read().decode(errors='replace')}")
    if not body.get("stream"):
        return Exchange(json.loads(text), [])
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    final: dict[str, Any] = next((event["response"] for event in reversed(events) if event["type"] in _LAST), {})
    return Exchange(final, events)


def outcome(upstream: str, case: dict[str, Any], each: Exchange, complaints: list[str]) -> Outcome:
    """Judge what came back: by the types, and by what the case wants."""
    complaints = [each.error] if each.error else [*complaints, *_unmet(each, case["wants"])]
    return Outcome(upstream, case["id"], "failed" if complaints else "passed", "; ".join(complaints))


def _unmet(each: Exchange, wants: list[str]) -> list[str]:
    output = each.response.get("output") or []
    met = {
        "output": bool(output),
        "completed": each.response.get("status") == "completed",
        "function_call": any(item["type"] == "function_call" for item in output),
        "events": bool(each.events),
        "function_call events": all(_has_event(each.events, name, item_type) for name, item_type in _CALL_EVENTS),
    }
    return [f"wanted: {want}" for want in wants if not met[want]]


def _has_event(events: list[dict[str, Any]], name: str, item_type: str | None) -> bool:
    return any(
        event["type"] == name and (item_type is None or event.get("item", {}).get("type") == item_type)
        for event in events
    )


SUITE = Suite("open-responses", "Open Responses", "the cases of its compliance test", "upstream", run)
