"""Metrics for Prometheus, and spans for OpenTelemetry, made of the record of each request.

Rules of this file:
- A label has few values, which come from toolwire, from the settings or from the operator: never a path or a key.
- A key has its name as a label. A model has one after it has answered, because clients can name any model.
- The number of keys, and of models for each key, is bounded. Further ones are counted as `other`.
- No key and no body is in the record, so none is in a metric.
"""

import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import accumulate

from msgspec import Struct, field
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from toolwire.gateway.budget_alerts import BudgetAlert
from toolwire.gateway.request_record import RequestRecord

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_BOUNDS = (*map(floatToGoString, _SECONDS), "+Inf")
_MOST_KEYS = 500
_MOST_MODELS = 20  # of one key
_MOST_PAIRS = 4000  # of a key and a model: to render so many takes a tenth of a second
_OTHER = "other"
_ENDINGS = frozenset({"answer", "continued", "broke off", "client gone", "error", ""})


class _Spent(Struct):
    """The tokens and the cost of requests."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def add(self, record: RequestRecord) -> None:
        """Add what a request has used."""
        self.input_tokens += record.input_tokens or 0
        self.cache_read_tokens += record.cache_read_tokens or 0
        self.cache_write_tokens += record.cache_write_tokens or 0
        self.output_tokens += record.output_tokens or 0
        self.cost += record.cost


class _KeyUse(Struct):
    """The requests of one key to one model."""

    requests: int = 0
    spent: _Spent = field(default_factory=_Spent)


class _Times(Struct):
    """How many requests took at most each bound, how many took longer, and the sum of their times."""

    counts: list[int]
    sum: float = 0.0


class Metrics:
    """The metrics of a gateway. `providers` returns the names that may be a label."""

    def __init__(self, providers: Callable[[], Collection[str]], running: Callable[[], int]) -> None:
        self._providers, self._running = providers, running
        self.others: list[Callable[[], Iterator[Metric]]] = []  # metrics of other parts of the gateway
        self._labels: dict[tuple[str, str, int, str], tuple[str, ...]] = {}
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._spent: defaultdict[str, _Spent] = defaultdict(_Spent)
        self._keys: dict[str, dict[str, _KeyUse]] = {}
        self._pairs = 0
        self._alerts: Counter[str] = Counter()
        self._times: defaultdict[str, _Times] = defaultdict(lambda: _Times([0] * (len(_SECONDS) + 1)))
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, record: RequestRecord) -> None:
        """Add a finished request to the counters: its status, its duration, its tokens and its cost."""
        wire, seconds = record.wire, record.seconds
        values = wire, record.provider_name, record.status, record.ending
        labels = self._labels.get(values) or self._labelled(values)
        self._requests[labels] += 1
        times = self._times[wire]
        times.counts[bisect_left(_SECONDS, seconds)] += 1
        times.sum += seconds
        if record.input_tokens is not None:
            self._spent[labels[1]].add(record)
        use = self._use_of(record)
        use.requests += 1
        use.spent.add(record)

    def observe_alert(self, alert: BudgetAlert) -> None:
        """Count an alert of a budget."""
        self._alerts[self._key_label(alert.key_name)] += 1

    def _key_label(self, name: str) -> str:
        """Return the label of a key, and make room for it."""
        if name not in self._keys:
            name = name if len(self._keys) < _MOST_KEYS else _OTHER
            self._keys.setdefault(name, {})
        return name

    def _use_of(self, record: RequestRecord) -> _KeyUse:
        """Return the counters of a request's key and model."""
        models = self._keys[self._key_label(record.key_name)]
        model = record.provider
        if model not in models:
            has_room = self._pairs < _MOST_PAIRS and len(models) < _MOST_MODELS
            model = model if not model or (has_room and record.ending == "answer") else _OTHER
        if model not in models:
            models[model] = _KeyUse()
            self._pairs += 1
        return models[model]

    def _labelled(self, values: tuple[str, str, int, str]) -> tuple[str, ...]:
        wire, provider, status, ending = values
        provider = provider if provider in self._providers() else ""
        attributes = str(status) if 100 <= status < 600 else "0"
        self._labels[values] = wire, provider, attributes, ending if ending in _ENDINGS else "error"
        return self._labels[values]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for Prometheus' own encoder."""
        by = ("wire", "provider", "status", "ending")
        requests = CounterMetricFamily("toolwire_requests", "Requests that were answered.", labels=by)
        for labels, count in self._requests.items():
            requests.add_metric(labels, count)
        seconds = HistogramMetricFamily("toolwire_request_seconds", "From a request's head to its end.", labels=by[:1])
        for wire, times in self._times.items():
            counts = zip(_BOUNDS, accumulate(times.counts), strict=True)
            seconds.add_metric([wire], [*counts], times.sum)
        tokens = CounterMetricFamily("toolwire_tokens", "Tokens read and written.", labels=("provider", "direction"))
        text = "Tokens of the input that were read from a prompt cache, or written to it."
        cached = CounterMetricFamily("toolwire_cached_tokens", text, labels=("provider", "operation"))
        cost = CounterMetricFamily("toolwire_cost_dollars", "US dollars.", labels=("provider",))
        for provider, spent in self._spent.items():
            tokens.add_metric([provider, "input"], spent.input_tokens)
            tokens.add_metric([provider, "output"], spent.output_tokens)
            cached.add_metric([provider, "read"], spent.cache_read_tokens)
            cached.add_metric([provider, "write"], spent.cache_write_tokens)
            cost.add_metric([provider], spent.cost)
        yield from self._collect_keys()
        running = GaugeMetricFamily("toolwire_running_requests", "Requests that run now.", self._running())
        yield from (requests, seconds, tokens, cached, cost, running)
        for collect in self.others:
            yield from collect()

    def _collect_keys(self) -> Iterator[Metric]:
        by = ("key_name", "model")
        text = "Requests of a key, by the provider and the model that answered."
        requests = CounterMetricFamily("toolwire_key_requests", text, labels=by)
        text = "Tokens read and written for a key."
        tokens = CounterMetricFamily("toolwire_key_tokens", text, labels=(*by, "direction"))
        cost = CounterMetricFamily("toolwire_key_cost_dollars", "US dollars that a key has spent.", labels=by)
        text = "Budgets of a key that were spent up to their alert."
        alerts = CounterMetricFamily("toolwire_key_budget_alerts", text, labels=by[:1])
        for key_name, models in self._keys.items():
            alerts.add_metric([key_name], self._alerts[key_name])  # from 0, else Prometheus sees no increase to 1
            for model, use in models.items():
                requests.add_metric([key_name, model], use.requests)
                tokens.add_metric([key_name, model, "input"], use.spent.input_tokens)
                tokens.add_metric([key_name, model, "output"], use.spent.output_tokens)
                cost.add_metric([key_name, model], use.spent.cost)
        yield from (requests, tokens, cost, alerts)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def record_metrics(counts: Callable[[], tuple[int, int]]) -> Iterator[Metric]:
    """Yield the metric of records. `counts` returns how many were written and how many were lost."""
    records = CounterMetricFamily("toolwire_records", "Records of exchanges.", labels=("outcome",))
    for outcome, count in zip(("written", "lost"), counts(), strict=True):
        records.add_metric([outcome], count)
    yield records


def spans() -> Callable[[RequestRecord], None] | None:
    """Return a function that makes a span of each request. Return None without the SDK of OpenTelemetry.

    `opentelemetry-instrument` loads the SDK.
    """
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - an extra

    tracer = trace.get_tracer("toolwire.gateway")

    def observe(record: RequestRecord) -> None:
        end, model = time.time_ns(), record.provider_model
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": record.provider_name,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": record.input_tokens,
            "gen_ai.usage.output_tokens": record.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": record.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": record.cache_write_tokens or None,
            "http.response.status_code": record.status,
            "toolwire.request": record.request,
            "toolwire.wire": record.wire,
            "toolwire.ending": record.ending,
            "toolwire.key": record.key,
        }
        start = end - int(record.seconds * 1e9)
        span = tracer.start_span(f"chat {model}".strip(), kind=trace.SpanKind.SERVER, start_time=start)
        span.set_attributes({name: value for name, value in attributes.items() if value not in (None, "")})
        if record.ending not in ("answer", "continued"):
            span.set_status(trace.StatusCode.ERROR, record.ending)
        span.end(end)

    return observe
