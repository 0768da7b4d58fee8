"""What a key matters that only its own wire understands: the table gives what weighing it one by one gives."""

import pytest

from toolwire.encoding.severities import Body, severities_of_keys, severity_of_key

BODIES: tuple[Body, ...] = ("request", "response", "error")


@pytest.mark.parametrize("outermost", [True, False])
@pytest.mark.parametrize("of", BODIES)
def test_the_table_weighs_as_each_key_is_weighed(of: Body, *, outermost: bool) -> None:
    weights = severities_of_keys(of, outermost=outermost)
    assert "index" in weights
    for key, weight in weights.items():
        for value in ("a word of nobody", {"type": "direct"}, False, "disabled", 1, [1]):
            assert severity_of_key(key, value, of, outermost=outermost) == weight


def test_what_depends_on_its_value_is_in_no_table() -> None:
    weights = severities_of_keys("request", outermost=True)
    assert weights.keys().isdisjoint({"truncation", "caller", "reasoning", "something new"})
