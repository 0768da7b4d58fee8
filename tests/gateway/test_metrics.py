"""Metrics by key and model: they add up, their labels are bounded, and the dashboard asks for what there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from toolwire.gateway.budget_alerts import BudgetAlert
from toolwire.gateway.metrics import Metrics
from toolwire.gateway.request_record import RequestRecord

DASHBOARD = Path(__file__).resolve().parent.parent.parent / "deploy" / "grafana.json"
_FUNCTIONS = {"by", "histogram_quantile", "increase", "label_values", "rate", "sum"}


def metrics_of(*records: RequestRecord) -> Metrics:
    """Return the metrics after these requests."""
    metrics = Metrics(lambda: ["openai", "eu"], lambda: 3)
    for record in records:
        metrics.observe(record)
    return metrics


def record(key: str = "ci", provider: str = "openai/m", ending: str = "answer", **more: Any) -> RequestRecord:
    """Return the record of a request."""
    fields: dict[str, Any] = {
        "time": "",
        "request": "tw_1",
        "key": "abcdefgh",
        "path": "/v1/messages",
        "wire": "anthropic",
        "status": 200,
        "model": "asked",
        "seconds": 0.5,
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 2,
        "cache_write_tokens": 1,
        "estimated": False,
        "cost": 0.25,
    }
    return RequestRecord(key_name=key, provider=provider, ending=ending, **(fields | more))


def samples(metrics: Metrics, family: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a counter, by the values of its labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        tuple(sample.labels.values()): sample.value
        for one in families
        for sample in one.samples
        if sample.name == f"{family}_total"
    }


def test_requests_tokens_and_cost_are_counted_by_key_and_model() -> None:
    metrics = metrics_of(record(), record(), record(provider="eu/m"), record("ann"))
    assert samples(metrics, "toolwire_key_requests") == {
        ("ci", "openai/m"): 2,
        ("ci", "eu/m"): 1,
        ("ann", "openai/m"): 1,
    }
    assert samples(metrics, "toolwire_key_cost_dollars")["ci", "openai/m"] == 0.5
    tokens = samples(metrics, "toolwire_key_tokens")
    assert (tokens["input", "ci", "openai/m"], tokens["output", "ci", "openai/m"]) == (20, 10)
    for family in ("toolwire_requests", "toolwire_cost_dollars"):
        by_key = samples(metrics, family.replace("toolwire_", "toolwire_key_"))
        assert sum(by_key.values()) == sum(samples(metrics, family).values())


def test_a_request_that_no_provider_answered_has_no_model() -> None:
    rejected = record(provider="", ending="error", status=429, input_tokens=None, output_tokens=None, cost=0.0)
    assert samples(metrics_of(rejected), "toolwire_key_requests") == {("ci", ""): 1}


def test_a_model_has_a_label_after_it_has_answered() -> None:
    failed = [record(provider=f"openai/made-up-{number}", ending="error", status=404) for number in range(100)]
    metrics = metrics_of(*failed, record(), record(ending="client gone"))
    assert samples(metrics, "toolwire_key_requests") == {("ci", "other"): 100, ("ci", "openai/m"): 2}


def test_the_models_of_a_key_are_bounded_and_take_no_room_from_another_key() -> None:
    many = [record(provider=f"openai/m{number}") for number in range(100)]
    metrics = metrics_of(*many, record("ann"))
    requests = samples(metrics, "toolwire_key_requests")
    assert requests["ci", "other"] == 80
    assert requests["ann", "openai/m"] == 1
    assert sum(requests.values()) == 101


def test_the_number_of_keys_is_bounded() -> None:
    metrics = metrics_of(*[record(f"key{number}") for number in range(600)])
    requests = samples(metrics, "toolwire_key_requests")
    assert (len(requests), requests["other", "openai/m"]) == (501, 100)
    assert samples(metrics, "toolwire_key_cost_dollars")["other", "openai/m"] == 25


def test_the_number_of_series_is_bounded() -> None:
    metrics = metrics_of(*[record(f"key{one % 500}", f"openai/m{one // 500}") for one in range(500 * 20)])
    requests = samples(metrics, "toolwire_key_requests")
    assert len(requests) == 4000 + 500
    assert sum(requests.values()) == 500 * 20


def test_alerts_are_counted_by_key_from_zero() -> None:
    metrics = metrics_of(record(), record("ann"))
    alert = BudgetAlert(time="", key="abcdefgh", key_name="ci", budget="20/day", alert="80%", spent=16.0)
    assert samples(metrics, "toolwire_key_budget_alerts") == {("ci",): 0, ("ann",): 0}
    metrics.observe_alert(alert)
    assert samples(metrics, "toolwire_key_budget_alerts") == {("ci",): 1, ("ann",): 0}


def test_a_name_with_quotes_and_new_lines_is_one_label() -> None:
    name = 'a"}\ntoolwire_key_requests_total{key_name="b'
    assert samples(metrics_of(record(name)), "toolwire_key_requests") == {(name, "openai/m"): 1}


def _expressions(value: Any) -> list[str]:
    """Return each query of a dashboard."""
    if isinstance(value, list):
        return [one for inner in value for one in _expressions(inner)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("expr", "query") if isinstance(value.get(name), str)]
    return own + [one for inner in value.values() for one in _expressions(inner)]


def _exported() -> dict[str, set[str]]:
    """Return the names of the gateway's samples, and the labels of each."""
    names: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics_of(record()).render().decode()):
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    return names


def test_the_dashboard_asks_for_metrics_and_labels_that_the_gateway_exports() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [text for text in _expressions(dashboard) if text != "prometheus"]
    exported = _exported()
    used = {name for text in expressions for name in re.findall(r"\btoolwire_\w+", text)}
    assert used - exported.keys() == set()
    for text in expressions:
        labels = set().union(*(exported[name] for name in re.findall(r"\btoolwire_\w+", text)))
        plain = re.sub(r'"[^"]*"|\$\w+|\btoolwire_\w+', "", text)
        words = set(re.findall(r"\b[a-z_]+\b", plain))
        assert words - labels - _FUNCTIONS == set(), text


def test_the_dashboard_shows_each_metric_of_the_gateway() -> None:
    text = DASHBOARD.read_text()
    families = text_string_to_metric_families(metrics_of(record()).render().decode())
    missing = [family.name for family in families if family.name not in text]
    assert missing == []


@pytest.mark.parametrize("field", ["id", "title"])
def test_the_panels_of_the_dashboard_differ(field: str) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel[field] for panel in panels}) == len(panels) == 16
