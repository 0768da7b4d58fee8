"""The secrets of a conversation: learnt on the way, hidden from then on, and bounded."""

import pytest

from toolwire import ToolCall, ToolResult
from toolwire.loop.steps import AskModel, RunTools
from toolwire.resolvers import AgentResolver, RunSecrets
from toolwire.scrubbing import Known, scrub, scrub_text, secrets_of
from toolwire.scrubbing.forms import MAX_CHARACTERS, MAX_LEARNED
from toolwire.types import Context, Message, Request

SECRET = "four words and more"  # noqa: S105 - a stand-in


@pytest.mark.parametrize(
    "value",
    [
        {"pin": SECRET},
        {"rows": [{"pin": SECRET}]},
        f'{{"pin": "{SECRET}"}}',
        f'said {{"pin": "{SECRET}"}} and went on',
        f'{{"n": 1, "pin": "{SECRET}',
        {"client_secret": SECRET},
    ],
)
@pytest.mark.row("L4")
def test_what_is_hidden_once_is_hidden_again(value: object) -> None:
    known = Known()
    assert SECRET not in str(scrub(value, ["pin"], known))
    assert SECRET in known
    assert scrub(["as", f"it is {SECRET}"], (), known) == ["as", "it is [hidden]"]
    assert scrub_text(SECRET[::-1], known) == "[hidden]"
    assert SECRET in scrub_text(f"it is {SECRET}"), "a control"


def test_what_is_short_is_not_learnt_but_may_be_given() -> None:
    known = Known(["abc", ""])
    known.learn(["1234567", "12345678"])
    assert list(known) == ["abc", "12345678"]
    assert scrub("abc 1234567 12345678", (), known) == "[hidden] 1234567 [hidden]"


def test_a_usual_name_in_a_text_teaches_nothing() -> None:
    """Source code has many: what they are followed by is hidden there, and not elsewhere."""
    known = Known()
    assert scrub("password = ask_for_it()", (), known) == "password = [hidden:password]"
    assert len(known) == 0


def test_of_many_secrets_the_newest_are_known_and_what_was_given() -> None:
    known = Known(["given to all"])
    known.learn(f"secret number {number}" for number in range(MAX_LEARNED + 10))
    assert len(known) == MAX_LEARNED + 1
    assert "secret number 9" not in known
    assert {"given to all", "secret number 10", f"secret number {MAX_LEARNED + 9}"} <= set(known)
    known.learn(["secret number 10", "another secret"])
    assert "secret number 10" in known, "it was seen again"
    assert "secret number 11" not in known


def test_of_long_secrets_as_many_are_known_as_can_be_searched_for() -> None:
    known = Known()
    known.learn(str(number) * (MAX_CHARACTERS // 10) for number in range(20, 30))
    assert 0 < len(known) < 10
    known.learn(["x" * (MAX_CHARACTERS + 1)])
    assert len(known) == 0


class Log:
    """A tool that is given a secret."""

    definition = {"name": "log_in", "description": "Log in.", "parameters": {"type": "object"}}  # noqa: RUF012
    sensitive_fields = ("pin",)

    def execute(self, arguments: object) -> str:
        return str(arguments)


@pytest.mark.row("L4", "L10")
def test_a_run_knows_the_secrets_of_its_calls_and_results() -> None:
    """The history, the calls that follow it, and what was given."""
    secrecy = RunSecrets(AgentResolver([Log]), [" a key of the provider ", "any", None])
    assert secrecy.given == ("a key of the provider",)
    first, second = ToolCall("a", "log_in", {"pin": "first secret"}), ToolCall("b", "log_in", {"pin": SECRET})
    broken = ToolCall("c", "log_in", {}, raw='{"pin": "third secret', error="it is no JSON")
    result = ToolResult("a", "log_in", '{"pin": "fourth secret", "n": "said openly"}')
    history = [Message("user", "Go"), Message("assistant", [first, broken]), Message("tool", [result])]
    secrecy.observe(AskModel(Request(context=Context(None, history)), 0))
    secrecy.observe(RunTools([second], 0))
    assert set(secrecy()) == {*secrecy.given, "first secret", "third secret", "fourth secret", SECRET}
    assert secrets_of({"pin": SECRET}, ()) == [], "a control"


def test_a_resolver_that_cannot_say_what_is_sensitive_hides_all() -> None:
    class Failing(AgentResolver):
        def sensitive_fields_for(self, name: str) -> list[str]:
            raise LookupError(name)

    fields = RunSecrets(Failing([Log])).fields_of("log_in")
    assert scrub({"a": "b", "c": {"d": 1}}, fields) == {"a": "[hidden]", "c": "[hidden]"}
