"""Sensitive values, kept out of whatever is written down."""

import base64
import html
import json
from collections import UserDict
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import pytest

from tests.sentinels import KEYS, LONG, MARKS
from toolwire.scrubbing import HIDDEN, mask, scrub, scrub_text, secrets_of
from toolwire.scrubbing.fields import normalize_name

SECRET = "s3cr3t"  # noqa: S105 - a stand-in
PLACES: list[Any] = [
    {"key": SECRET},
    {"KEY": SECRET},
    {"a": {"key": SECRET}},
    {"a": [{"key": SECRET}, 1]},
    {"key": [SECRET, {"x": SECRET}]},
    {"key": {"deep": {"er": SECRET}}},
    [[{"Key": (SECRET,)}]],
    ({"key": SECRET},),
    UserDict({"key": SECRET}),
    {"a": json.dumps({"key": SECRET})},
    {"a": json.dumps({"a": json.dumps([{"key": SECRET}])})},
    {"a": json.dumps(json.dumps({"key": SECRET}))},
    {"a": f'the request {{"key": "{SECRET}", "b": 1}} failed'},
    {"a": f"the request {{'key': '{SECRET}'}} failed"},
    {"a": f'cut off: {{"b": 1, "key": "{SECRET}'},
    {"a": f'cut off: {{"key": {{"x": ["{SECRET}"'},
    {"a": f"https://host/path?a=1&key={SECRET}&b=2"},
    {"a": f"KEY={SECRET}\nHOME=/root"},
    {"a": f'{{"\\u006bey": "{SECRET}"}}'},
    {"a": f'["\\u006bey={SECRET}"]'},
    {"a": f'{{"key": "{SECRET}", "key": "x"}}'},
    {"a": f"key={SECRET}".encode()},
    {"a": bytearray(f'{{"key": "{SECRET}"}}'.encode())},
    {"a": ValueError(f"key={SECRET}")},
    {"a": {("key",): 1}, "b": {"x": {"key": SECRET}}},
    {b"key": SECRET},
    [{"name": "key", "value": SECRET}],
    {"Key": "KEY", "Value": {"x": SECRET}},
    {"a": json.dumps([{"name": "key", "value": SECRET}])},
    *(
        {"a": text.replace('"', quote)}
        for quote in ('"', '\\"', '\\\\\\"', "'")
        for text in (
            f'said {{"key": ["x] y", "{SECRET}"], "b": 1}} and went on',
            f'said {{"key": {{"a}}": "{{", "b": ["{SECRET}"]}}}} and went on',
        )
    ),
]


@pytest.mark.parametrize("value", PLACES)
@pytest.mark.row("L1", "L10")
def test_sensitive_fields_are_hidden_wherever_they_stand(value: Any) -> None:
    before = repr(value)
    assert SECRET not in repr(scrub(value, ["key"]))
    assert mask("key") in repr(scrub(value, ["key"]))
    assert repr(value) == before, "the tool gets the original"
    assert SECRET in repr(scrub(value, ["other"])), "a control: the secret is there"


class Word(str):
    __slots__ = ()


VALUES = [SECRET, Word(SECRET), SECRET.encode(), bytearray(SECRET.encode()), Decimal(123456789), 123456789]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["password", b"token", "Cookie"])
def test_any_text_and_number_of_a_usual_name_is_hidden(name: Any, value: Any) -> None:
    clean = scrub({name: value, "said": f"it is {value}"})
    assert clean[name] == mask(normalize_name(name if isinstance(name, str) else name.decode()))
    assert scrub({name: ""}) == {name: ""}
    assert scrub({name: True, "name": name}) == {name: True, "name": name}


@pytest.mark.parametrize(
    "value", [*VALUES[4:], bytearray(LONG.encode()), UUID(int=5), Path("/srv/of/someone"), Word(LONG)]
)
def test_what_is_hidden_is_found_elsewhere_whatever_its_type(value: Any) -> None:
    shown = value.decode() if isinstance(value, bytearray) else str(value)
    assert scrub({"card": value, "said": f"it is {shown}!"}, ["card"])["said"] == f"it is {HIDDEN}!"
    assert scrub({"cards": value, "said": shown}, ["card"])["said"] == shown, "a control"


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        (
            [("Authorization", "Basic c2Vj"), ("accept", "x")],
            [("Authorization", mask("authorization")), ("accept", "x")],
        ),
        ([[b"cookie", b"a=b"]], [[b"cookie", mask("cookie")]]),
        ([("X-Api-Key", "abc")], [("X-Api-Key", mask("apikey"))]),
        ({"Set-Cookie": ["a=b", "c=d"]}, {"Set-Cookie": mask("setcookie")}),
        ([{"name": "x-auth-token", "value": "abc"}], [{"name": "x-auth-token", "value": mask("authtoken")}]),
        (
            {"env": [{"name": "DB_PASSWORD", "value": "abc"}]},
            {"env": [{"name": "DB_PASSWORD", "value": mask("password")}]},
        ),
    ],
)
def test_headers_and_settings_as_pairs_are_hidden(headers: Any, shown: Any) -> None:
    assert scrub(headers) == shown


@pytest.mark.parametrize(
    "value",
    [
        ["token", "text"],
        ["password", "confirm_password"],
        ("secret", 5),
        {"password": ["This field is required."]},
        {"name": "author", "value": "me"},
        {"name": "password", "values": "x"},
        {"name": ["password"], "value": "x"},
        [["authorization", "read", "write"]],
    ],
)
def test_what_is_no_pair_of_a_header_stays(value: Any) -> None:
    assert scrub(value) is value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Authorization: Digest username="abc", realm="a b", response="def"\nnext', "Authorization: {}\nnext"),
        ("Cookie: a=\"b c\"; d='e f'; g=h\nnext", "Cookie: {}\nnext"),
        (
            "curl -H 'Authorization: Basic abc=' https://e.org -H 'x: y'",
            "curl -H 'Authorization: {}' https://e.org -H 'x: y'",
        ),
        ('curl -H "Cookie: a=b" https://e.org', 'curl -H "Cookie: {}" https://e.org'),
        ('sent "Authorization: Digest username=\\"abc\\", x" at 5', 'sent "Authorization: {}" at 5'),
        ('\\"Cookie: a=\\\\\\"b\\\\\\"; c\\" at 5', '\\"Cookie: {}\\" at 5'),
    ],
)
def test_a_header_is_hidden_with_what_it_has_in_quotes(text: str, shown: str) -> None:
    name = "cookie" if "Cookie" in text else "authorization"
    assert scrub_text(text) == shown.format(mask(name))


def test_secrets_are_listed() -> None:
    assert secrets_of({"a": [{"KEY": (SECRET, 123456, {"b": "longer than that"})}]}, ["key"]) == [
        "longer than that",
        "123456",
        SECRET,
    ]


NAMES = [
    ("api_key", "api_key", True),
    ("api_key", "API_KEY", True),
    ("api_key", "apiKey", True),
    ("api_key", "api-key", True),
    ("api_key", "Api Key", True),
    ("apiKey", "api.key", True),
    ("card", "\uff43\uff41\uff52\uff44", True),
    ("card", "c\u0430rd", True),
    ("card", "\u0421ard", True),
    ("card", "ca\u200brd", True),
    ("card", "cards", False),
    ("card", "my_card", False),
    ("*card", "my_card", True),
    ("card*", "cards", True),
    ("*card*", "my_card_2", True),
    ("a*c*e", "abcde", True),
    ("a*c*e", "abde", False),
    ("*card", "card_2", False),
    ("schl\u00fcssel", "SCHL\u00dcSSEL", True),
    ("stra\u00dfe", "STRASSE", True),
    ("\U0001f511", "\U0001f511", True),
    ("\U0001f511", "-", False),
]


@pytest.mark.parametrize(("field", "key", "fits"), NAMES)
@pytest.mark.row("L2")
def test_names_are_compared_by_letters_and_digits(field: str, key: str, fits: bool) -> None:
    assert (SECRET not in repr(scrub({"a": [{key: SECRET}]}, [field]))) is fits
    assert (SECRET not in scrub(json.dumps({"a": [{key: SECRET}]}), [field])) is fits


PATHS = [
    ("a.*.pin", {"a": {"b": {"pin": SECRET}}}, True),
    ("a.*.pin", {"a": [{"pin": SECRET}]}, True),
    ("a.*.pin", {"x": {"a": {"b": {"pin": SECRET}}}}, True),
    ("a.*.pin", {"b": {"b": {"pin": SECRET}}}, False),
    ("a.*.pin", {"a": {"pin": SECRET}}, False),
    ("a.pin", {"a": [[{"pin": SECRET}]]}, True),
    ("a.1.pin", {"a": [{"pin": "x"}, {"pin": SECRET}]}, True),
    ("a.1.pin", {"a": [{"pin": SECRET}, {"pin": "x"}]}, False),
    ("a.0", {"a": [SECRET]}, True),
    ("a.0", {"a": ["x", SECRET]}, False),
    ("a.*", {"a": ["x", SECRET]}, True),
    ("a.pin", {"a.pin": SECRET}, True),
    ("pin", {"a.pin": SECRET}, True),
    ("a.x_*", {"a": {"x-1": SECRET}}, True),
]


@pytest.mark.parametrize(("path", "value", "fits"), PATHS)
@pytest.mark.row("L2")
def test_paths_have_wildcards_and_indexes(path: str, value: Any, fits: bool) -> None:
    assert (SECRET not in repr(scrub(value, [path]))) is fits
    assert (SECRET not in scrub(json.dumps(value), [path])) is fits


def test_nothing_else_is_touched() -> None:
    value = {"a": [1, "x", {"b": None}], "keys": "stay"}
    assert scrub(value, ["key"]) is value
    assert scrub(value, []) is value
    assert secrets_of(value, ["key"]) == []


ORDINARY = [
    "The author of the tokenizer has a keyboard, a turkey and the secret of a passport.",
    "see https://example.com/a?author=me&page_tokens=5&monkey=1#token and mail me@example.com",
    "task-management-of-the-whole-thing, risk-assessment-of-everything-here, sk-learn-like-libraries",
    "git@github.com:owner/name.git ssh://git@host/x https://user@host/x http://[::1]:80/a@b",
    "eyJust a word. AKIA is a prefix, and ghp_ as well; Bearer of bad news; basic understanding",
    "npm_package_devDependencies_typescript hf_model_loading_with_a_cache tw-class-of-a-very-long-name gl-pat",
    'next_page_token=5, max_token: 5, {"pass": 5, "secrets": 3, "secretName": "a"}',
    "pass --token with your key, --password PASSWORD --max-tokens 5 --token-file a1",
    "at 2026-11-26 12345678:AA and 123456789:AAAA, 1234567890:ABSENTINEL5f2c9e1b7aSENTINEL5f2c9e12",
    "<token/> <secret></secret> <token>), or <b>1</b>",
    "max_tokens: 5, tokens=7, token, password required, password_hint, is_secret: true, `secret`: no",
    '{"author": "x", "tokenizer": "y", "keyboard": "z", "has_password": true, "token": null, "b" : [1.50] }',
    '{"password": {"type": "string"}, "api_key": {"description": "a key"}}',
    "2026-11-21T22:00:00.123456Z 123e4567-e89b-12d3-a456-426614174000 d41d8cd98f00b204e9800998ecf8427e",
    "if a == b: x = y != z",
    "def log_in(user: str, password: str) -> bool: return check(token=None, secret=True)",
    "class Key: token: bytes | None = None",
    "[token]: https://example.com/a and `secret` => nothing; if token == x or token >= y",
    "mysql -p db, mysql -u root -p -h x, mysql -P3306 --port=3306 --print-defaults; ssh -p2222 host",
    'docker run --name mysql -p3306:3306 mysql:8; mysql -p$DB_PASS -p"${DB_PASS}" -p<pass>; the mysql-project',
    "https://host/?key=name&sort=1&key=user_id_of_the_owner&key=page-2&monkey=123e4567-e89b-12d3-a456-426614174000",
    "xoxb- and xapp-1 begin tokens; 123456:ABC is none, nor is 12:45:AM, nor sha256:A591A6D40BF420404A011733CFB7B190",
    '{"a": 1, "a": 2}'[:8] + "}",
    "{broken json: [",
    "[hidden] and [hidden:key]",
    "",
]


@pytest.mark.parametrize("text", ORDINARY)
@pytest.mark.row("L9")
def test_what_only_looks_sensitive_is_not_destroyed(text: str) -> None:
    assert scrub(text, ["card"]) == text
    assert scrub_text(text) == text
    assert scrub({"text": [text]}, ["card"], ["another-secret"]) == {"text": [text]}


AROUND = ["{}", "before {} after", '"{}"', "({}, 1)", "a\n{}\nb", "<b>{}</b>"]


@pytest.mark.sampled
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.row("L5")
def test_what_looks_like_a_key_is_hidden_without_a_name(kind: str, around: str) -> None:
    """Nothing of it is left, not even its beginning."""
    text = around.format(KEYS[kind])
    for clean in (scrub_text(text), scrub({"a": [text]})["a"][0], scrub(text.encode()).decode()):
        assert not any(mark in clean for mark in MARKS), clean
        assert "[hidden" in clean
        assert scrub_text(clean) == clean, "what is hidden stays as it is"


def in_base64(before: int, text: str) -> str:
    return base64.b64encode(b"u" * before + text.encode() + b":x").decode()


SECRETS = [LONG, "plain-value-1", 'quote"d \\ value', "line\nline\nline", "ключ-от-дома", '<ключ/\'"&">']
FORMS: dict[str, Callable[[str], str]] = {
    "itself": lambda text: text,
    "json": json.dumps,
    "json of json": lambda text: json.dumps(json.dumps({"a": text})),
    "unicode json of json": lambda text: json.dumps(json.dumps({"a": text}, ensure_ascii=False), ensure_ascii=False),
    "json of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "html": html.escape,
    "html without quotes": lambda text: html.escape(text, quote=False),
    "html of Jinja": lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "unicode json": lambda text: json.dumps(text, ensure_ascii=False),
    "repr": repr,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "quoted": lambda text: quote(text, safe=""),
    "path": quote,
    "form": quote_plus,
    "reversed": lambda text: text[::-1],
    **{f"base64 at {before}": partial(in_base64, before) for before in range(4)},
    "urlsafe base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
}


@pytest.mark.sampled
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.row("L4")
def test_a_known_secret_is_found_in_every_form(form: str, secret: str) -> None:
    shown = FORMS[form](secret)
    middle = shown[8:-8] if "base64" in form else secret if secret in shown else shown[1:-1]
    assert middle in shown
    for clean in (
        scrub_text(f"it said {shown}!", [secret]),
        repr(scrub({"a": [f"x{shown}y"]}, (), [secret])),
        repr(scrub({"card": secret, "other": [f"x{shown}y"]}, ["card"])),
        repr(scrub({f"x{shown}y": 1}, (), [secret])),
        repr(scrub({"a": f"x{shown}y".encode()}, (), [secret])),
    ):
        assert middle not in clean
        assert HIDDEN in clean


def test_a_known_secret_is_hidden_as_often_as_it_stands_there() -> None:
    assert scrub_text("plain-value-1, plain-value-1 plain-value-1", ["plain-value-1"]) == f"{HIDDEN}, {HIDDEN} {HIDDEN}"


@pytest.mark.row("L4")
def test_a_short_value_is_hidden_by_its_name_only() -> None:
    assert scrub({"pin": "1234", "text": "in 1234 days"}, ["pin"]) == {
        "pin": mask("pin"),
        "text": "in 1234 days",
    }
    assert scrub({"pin": 12345678, "n": 12345678}, ["pin"]) == {"pin": mask("pin"), "n": HIDDEN}


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (SECRET, f"failed with {SECRET}"),
        ("a'b\n", f"failed with {'a' + chr(39) + 'b' + chr(10)!r}"),
        ('quote"d', 'failed with {"x": "quote\\"d"}'),
        (123456, "failed with 123456"),
    ],
)
def test_what_stood_in_a_sensitive_field_is_taken_out_of_text(secret: Any, text: str) -> None:
    found = secrets_of({"key": secret}, ["key"])
    assert scrub_text(text, found) != text
    assert str(secret) not in scrub_text(text, found)


def test_a_very_short_value_is_not_taken_out_of_text() -> None:
    assert secrets_of({"key": "a"}, ["key"]) == []
    assert secrets_of({"key": True}, ["key"]) == []


@pytest.mark.row("L1")
def test_keys_that_are_secrets_are_hidden_and_none_is_lost() -> None:
    """The name of a key."""
    clean = scrub({KEYS["openai"]: 1, KEYS["aws"]: 2, "a": 3}, ["card"])
    assert sorted(clean.values()) == [1, 2, 3]
    assert not any(mark in repr(clean) for mark in MARKS)


def test_json_is_written_anew_only_if_something_is_hidden() -> None:
    odd = ' {"a" : 1.50,\n "b":[ ] , "text": "token = x"} '
    assert scrub(odd[:-22] + "}", ["card"]) == odd[:-22] + "}"
    assert scrub('{"card" : "1",  "b":"é"}', ["card"]) == '{"card": "[hidden:card]", "b": "é"}'


def test_a_name_that_stands_twice_hides_nothing_in_an_object() -> None:
    assert scrub(f'{{"b": {{"key": "{SECRET}"}}, "b": 1}}', ["key"]) == '{"b": 1}'


@pytest.mark.row("L5")
def test_a_mask_has_nothing_of_the_secret_or_of_the_key() -> None:
    """The name is the one that was declared."""
    assert scrub({"CARD-number": LONG}, ["card_number"]) == {"CARD-number": "[hidden:card_number]"}
    assert mask("x" * 100 + "]\n") == f"[hidden:{'x' * 40}]"
    assert scrub(scrub({"card": LONG}, ["card"]), ["card"]) == {"card": mask("card")}


EXPLAINED = (
    "You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer {}), or "
    "as the password field. You can obtain an API key from https://platform.openai.com/account/api-keys."
)


@pytest.mark.parametrize(
    "stand_in", ["YOUR_KEY", "OPENAI_API_KEY", "<token>", "<YOUR API KEY>", "$KEY", "${KEY}", "..."]
)
def test_what_explains_a_key_is_no_key(stand_in: str) -> None:
    assert scrub_text(EXPLAINED.format(stand_in)) == EXPLAINED.format(stand_in)
    assert scrub_text(f"Authorization: {stand_in}") == f"Authorization: {stand_in}"


@pytest.mark.parametrize(
    "key", ["abcdefg", "YOUR_KEY1", "YOURKEY", "A_B_KEY_1", "<token>x", "$KEY9x", "....x", "Abc_KEY"]
)
def test_what_only_looks_like_it_is_hidden(key: str) -> None:
    for text in (EXPLAINED.format(key), f"Authorization: {key}", f"Authorization: Bearer {key}"):
        assert key not in scrub_text(text)


def test_behind_what_explains_a_key_a_key_is_hidden() -> None:
    said = scrub_text("Authorization: Bearer YOUR_KEY), not Authorization: Bearer swordfish; password=swordfish")
    assert "swordfish" not in said
    assert scrub_text("Authorization: Bearer YOUR_KEY", ["YOUR_KEY"]) != "Authorization: Bearer YOUR_KEY"
