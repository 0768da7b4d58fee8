"""Names of models: routes with a `*`, their order, and addresses that stand in variables."""

from pathlib import Path

import pytest

from tests.gateway.standing import at
from toolwire.cli import main
from toolwire.config import read_settings
from toolwire.config.settings import InvalidSettings
from toolwire.errors import InvalidField
from toolwire.gateway import starting
from toolwire.gateway.routes import Routes, providers_of
from toolwire.providers import Provider

SETTINGS = """
[routes."openai/*"]
to = ["eu/*", { model = "us/small-*", weight = 2 }]
strict = true
[routes."openai/gpt-*"]
to = ["us/g-*"]
[routes."openai/gpt-exact"]
to = ["eu/exact"]
[routes."*-fast"]
to = ["eu/*"]
[routes."one/*"]
to = ["eu/fixed"]
[routes."*"]
to = ["us/rest/*"]
"""


def providers() -> dict[str, Provider]:
    """Return three providers."""
    return {name: at("http://127.0.0.1:9", "openai").with_options(name=name) for name in ("eu", "us", "openai")}


def targets(routes: Routes, name: str) -> list[str] | None:
    """Return what serves a name."""
    route = routes.find(name)
    return None if route is None else [candidate.name for candidate in route.candidates]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-exact", ["eu/exact"]),
        ("openai/gpt-5", ["us/g-5"]),
        ("openai/o5", ["eu/o5", "us/small-o5"]),
        ("openai/ft:gpt/x", ["eu/ft:gpt/x", "us/small-ft:gpt/x"]),
        ("openai/*", None),
        ("*", None),
        ("m-fast", ["eu/m"]),
        ("one/whatever", ["eu/fixed"]),
        ("eu/m", ["eu/m"]),
        ("gpt-5", ["us/rest/gpt-5"]),
        ("nobody/m", ["us/rest/nobody/m"]),
        ("openai/", None),
        ("a/../b", None),
        ("m" * 257, None),
    ],
)
def test_the_longest_name_with_a_star_comes_after_an_exact_one_and_before_a_provider(
    name: str, expected: list[str] | None
) -> None:
    routes = Routes(read_settings(SETTINGS), providers())
    for _ in range(2):  # the second time from the names that were resolved
        assert targets(routes, name) == expected
    assert routes.knows(name) or expected is None


def test_a_route_with_a_star_keeps_its_settings_and_is_in_no_list() -> None:
    routes = Routes(read_settings(SETTINGS), providers())
    route = routes.find("openai/o5")
    assert route is not None
    assert (route.name, route.settings.strict) == ("openai/o5", True)
    assert [candidate.weight for candidate in route.candidates] == [0, 2]
    assert not [name for name in routes.names() if "*" in name]
    assert "openai/gpt-exact" in routes.names()


def test_text_for_a_star_that_makes_no_name_of_a_model_is_unknown() -> None:
    routes = Routes(read_settings('[routes."x*"]\nto = ["eu/*"]'), providers())
    assert targets(routes, "x5") == ["eu/5"]
    for name in ("x-5", "x/5", "x.", "x"):
        assert targets(routes, name) is None


def test_the_route_of_all_names_comes_before_the_model_of_a_program() -> None:
    routes = Routes(read_settings('[routes."*"]\nto = ["eu/*"]'), providers(), "openai")
    assert targets(routes, "m") == ["eu/m"]
    assert targets(Routes(read_settings('[routes."a*"]\nto = ["eu/*"]'), providers(), "openai"), "m") == ["openai/m"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[routes."a*b*"]\nto = ["eu/m"]', "routes.a*b*: a route's name may have one * only"),
        ('[routes.a]\nto = ["eu/*"]', "routes.a.to[0] has a * that stands for no text"),
        ('[routes."a*"]\nto = ["eu/*-*"]', "routes.a*.to[0] has a * that stands for no text"),
        ('[routes."a*"]\nto = ["*/m"]', "routes.a*.to[0] must be PROVIDER/MODEL"),
        ('[routes."a*"]\nto = ["*"]', "routes.a*.to[0] must be PROVIDER/MODEL"),
        ('[routes.a]\nto = ["eu/m"]\non_context = "b*"\n[routes."b*"]\nto = ["eu/*"]', "routes.a.on_context"),
        ('[providers.eu]\nbase_url = "$eu-1"', "providers.eu.base_url must be like https://host/path, or name"),
        ('[server]\ndatabase = "$a b"', 'or name a variable ("$NAME")'),
    ],
)
def test_what_is_wrong_with_a_star_or_a_variable_is_named(text: str, reason: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        read_settings(text)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("section", "value", "expected"),
    [
        ("azure", "https://me.openai.azure.com/", "https://me.openai.azure.com/openai/v1"),
        ("azure", "https://me.openai.azure.com/other", "https://me.openai.azure.com/other"),
        ("own", "http://gpu:8000", "http://gpu:8000"),
        ("another", "https://me.openai.azure.com", "https://me.openai.azure.com/openai/v1"),
    ],
)
def test_an_address_may_be_in_a_variable(section: str, value: str, expected: str) -> None:
    other = {"own": 'dialect = "openai-chat"', "another": 'like = "azure"'}.get(section, "")
    settings = read_settings(f'[providers.{section}]\n{other}\nbase_url = "$PLACE"')
    assert providers_of(settings, {"PLACE": value}, {})[section].base_url == expected
    for environ, reason in (({}, "PLACE is not set"), ({"PLACE": "secret-word"}, "PLACE holds something else")):
        with pytest.raises(InvalidField) as raised:
            providers_of(settings, environ, {})
        assert f"providers.{section}" in str(raised.value)
        assert reason in str(raised.value)
        assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize("setting", ["server.database", "traces.url"])
def test_the_address_of_a_database_may_be_in_a_variable(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section, _, name = setting.partition(".")
    (file := tmp_path / "toolwire.toml").write_text(f'[{section}]\n{name} = "$TOOLWIRE_DB"\n')
    for value, reason in ((None, "TOOLWIRE_DB is not set"), ("mysql://me:secret@h/d", "holds something else")):
        monkeypatch.delenv("TOOLWIRE_DB", raising=False)
        if value:
            monkeypatch.setenv("TOOLWIRE_DB", value)
        for command in (["config", "check", str(file)], ["serve", "--check", "--config", str(file)]):
            assert main(command) == 2
            told = capsys.readouterr().err
            assert f"{section}: {name} " in told
            assert reason in told
            assert "secret" not in told
    monkeypatch.setenv("TOOLWIRE_DB", "sqlite:///kept.db")
    assert main(["serve", "--check", "--config", str(file)]) == 0
    gateway = starting.gateway_of(
        starting.routes_of(starting.settings_from(str(file)), str(file), {}),
        starting.settings_from(str(file)),
        str(file),
    )
    gateway.context.memory.close()
    assert (tmp_path / "kept.db").exists()


def test_a_provider_like_a_known_one_has_its_login_its_quirks_and_its_key() -> None:
    text = """
    [providers.second]
    like = "mistral"
    key = "$SECOND"
    [providers.google]
    like = "gemini"
    [routes.m]
    to = ["second/m", "mistral/m", "google/g"]
    """
    environ = {"SECOND": "k2", "MISTRAL_API_KEY": "k1", "GEMINI_API_KEY": "k3"}
    known = providers_of(read_settings(text), environ, {})
    assert known["second"].quirks == known["mistral"].quirks != {}
    assert (known["second"].name, known["second"].base_url, known["second"].api_key) == (
        "second",
        known["mistral"].base_url,
        "k2",
    )
    assert known["google"].auth == "x-goog-api-key"
    with pytest.raises(InvalidField, match=r"like 'mistrall' is not a known provider.*did you mean mistral") as raised:
        providers_of(read_settings('[providers.a]\nlike = "mistrall"'), {}, {})
    assert "providers.a" in str(raised.value)
