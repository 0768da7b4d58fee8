"""Figures for Prometheus, and spans for OpenTelemetry: made of the record of each request, and nothing else.

Rules of this file:
- A label has few values, all of ours or of the settings: never a model's name, a path or a key of a client.
- No key and no body is in the record, so none is here.
"""

import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ENDINGS = frozenset({"answer", "continued", "broke off", "client gone", "error", ""})


class Metrics:
    """The figures of a gateway; `providers` says whose names may be a label."""

    def __init__(self, providers: Callable[[], Collection[str]], running: Callable[[], int]) -> None:
        registry = self._registry = CollectorRegistry()
        by = ("wire", "provider", "status", "ending")
        self._requests = Counter("toolwire_requests", "Requests that were answered.", by, registry=registry)
        self._seconds = Histogram(
            "toolwire_request_seconds",
            "From a request's head to its end.",
            ("wire",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "toolwire_tokens", "Tokens read and written.", ("provider", "direction"), registry=registry
        )
        self._cost = Counter("toolwire_cost_dollars", "US dollars.", ("provider",), registry=registry)
        Gauge("toolwire_running_requests", "Requests that run now.", registry=registry).set_function(running)
        self._providers = providers
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def watch(self, record: dict[str, Any]) -> None:
        """Count a request."""
        provider = record["goal"].partition("/")[0]
        place = record["wire"], provider, record["status"], record["ending"]
        counters = self._known.get(place)
        if counters is None:
            counters = self._known[place] = self._labelled(*place)
        requests, seconds, read, written, cost = counters
        requests.inc()
        seconds.observe(record["seconds"])
        if record["input_tokens"] is not None:
            read.inc(record["input_tokens"])
            written.inc(record["output_tokens"])
            cost.inc(record["cost"])

    def _labelled(self, wire: str, provider: str, status: int, ending: str) -> tuple[Any, ...]:
        provider = provider if provider in self._providers() else ""
        told = str(status) if 100 <= status < 600 else "0"
        return (
            self._requests.labels(wire, provider, told, ending if ending in _ENDINGS else "error"),
            self._seconds.labels(wire),
            self._tokens.labels(provider, "read"),
            self._tokens.labels(provider, "written"),
            self._cost.labels(provider),
        )

    def told(self) -> bytes:
        """Give the figures as Prometheus reads them."""
        return generate_latest(self._registry)


def spans() -> Callable[[dict[str, Any]], None] | None:
    """Give what makes a span of each request, where an SDK of OpenTelemetry was loaded: `opentelemetry-instrument`."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - an extra

    tracer = trace.get_tracer("toolwire.gateway")

    def watch(record: dict[str, Any]) -> None:
        end = time.time_ns()
        provider, _, model = record["goal"].partition("/")
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": record["input_tokens"],
            "gen_ai.usage.output_tokens": record["output_tokens"],
            "http.response.status_code": record["status"],
            "toolwire.request": record["request"],
            "toolwire.wire": record["wire"],
            "toolwire.ending": record["ending"],
            "toolwire.key": record["key"],
        }
        start = end - int(record["seconds"] * 1e9)
        span = tracer.start_span(f"chat {model}".strip(), kind=trace.SpanKind.SERVER, start_time=start)
        span.set_attributes({name: value for name, value in told.items() if value not in (None, "")})
        if record["ending"] not in ("answer", "continued"):
            span.set_status(trace.StatusCode.ERROR, record["ending"])
        span.end(end)

    return watch
