"""Secrets in an answer: which values are some, in which forms they are found, however the answer is cut."""

import base64
import random

import pytest

from tests.gateway.standing import KEY, at
from toolwire.gateway.masking import MaskedStream, ProviderSecrets, secrets_of

CANARY = "a-token-of/some+length"


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("x-extra", "nineteen-characters", ()),
        ("x-extra", "twenty-characters-20", ("twenty-characters-20",)),
        ("x-version", "2023-06-01", ()),
        ("x-api-key-version", "2024-01-01", ()),
        ("x-on", "true", ()),
        ("x-team-token", "short-8c", ("short-8c",)),
        ("x-team-token", "short-7", ()),
        ("Authorization", f"Bearer {CANARY}", (f"Bearer {CANARY}", CANARY)),
        ("x-anything", "Bearer short-8c", ("Bearer short-8c", "short-8c")),
        ("x-apikey", "12345678", ("12345678",)),
        ("Helicone-Auth", "12345678", ("12345678",)),
        ("cf-access-client-secret", "12345678", ("12345678",)),
        ("Cookie", "a=12345678; b=dark", ("a=12345678; b=dark", "a=12345678", "12345678")),
        ("user-agent", "a program of more than twenty characters", ()),
        ("http-referer", "https://app.example.com/chat", ()),
        ("anthropic-beta", "prompt-caching-2024-07-31", ()),
    ],
)
def test_a_value_is_a_secret_by_its_length_and_its_name(name: str, value: str, known: tuple[str, ...]) -> None:
    for field in ("headers", "query"):
        provider = at("http://127.0.0.1:9", "ollama", **{field: {name: value}}).with_options(api_key=None)
        assert set(secrets_of(provider).texts) == set(known)


def test_a_login_is_known_in_its_parts() -> None:
    login = base64.b64encode(b"someone:pass-word").decode()
    provider = at("http://127.0.0.1:9", "ollama", headers={"x-way": f"Basic {login}"}).with_options(api_key=None)
    assert set(secrets_of(provider).texts) == {f"Basic {login}", login, "someone:pass-word", "pass-word"}
    proxied = secrets_of(at("http://127.0.0.1:9", "ollama"), "http://me:pass%2Fword@127.0.0.1:9")
    assert set(proxied.texts) == {KEY, "pass/word", "me:pass/word"}


PIECES = [
    b'data: {"id":"one","delta":{"text":"%s"},"end":"of a frame"}\n\n',
    b'data: {"id":"one","%s":{"text":"a word"},"end":"of a frame"}\n\n',
    b'data: {"id":"%s","delta":{"text":"a word"},"end":"of a frame"}\n\n',
    b'data: {"id":"one","delta":{"text":"a word"},"end":"%s"}\n\n',
    b'data: {"id":"one","delta":{"text":"a %s\\u002c word"},"end":"of a frame"}\n\n',
    b": %s\n\n",
]


@pytest.mark.parametrize("secret", [KEY, CANARY, 'with "quotes" and {braces}'])
def test_a_secret_is_found_wherever_frames_differ(secret: str) -> None:
    secrets, chance = ProviderSecrets([secret]), random.Random(7)  # noqa: S311 - a test
    forms = list(dict.fromkeys([secret.replace('"', '\\"'), base64.b64encode(secret.encode()).decode()]))
    for _ in range(300):
        frames = [chance.choice(PIECES) % chance.choice([b"word", b"another word", b""]) for _ in range(40)]
        place = chance.randrange(40)
        frames[place] = chance.choice(PIECES) % chance.choice(forms).encode()
        masking = MaskedStream(secrets)
        told = [masking.feed(frame) for frame in frames] + [masking.close()]
        assert b"".join(told) == secrets.mask(b"".join(frames))
        assert b"[hidden]" in told[place]
        assert all(form.encode() not in b"".join(told) for form in forms)


def test_a_secret_is_found_however_its_bytes_are_cut() -> None:
    secrets = ProviderSecrets([CANARY, KEY, "t0k/3n-9"])
    forms = [
        CANARY,
        CANARY.replace("/", "\\/"),
        CANARY.replace("+", "\\u002B"),
        base64.b64encode(KEY.encode()).decode(),
    ]
    for form in [*forms, KEY.encode().hex(), KEY[::-1], "t0k\\u002f3n-9"]:
        said = f'words {form}", sk- a- {form[:-1]} {form[:5]}{form} \\u00e4 end'.encode()
        for first in range(len(said)):
            for size in (1, 3, 17):
                cuts = [said[:first], *(said[at : at + size] for at in range(first, len(said), size))]
                masking = MaskedStream(secrets)
                told = b"".join([*map(masking.feed, cuts), masking.close()])
                assert told == secrets.mask(said)
                assert form.encode() not in told


def test_a_provider_without_secrets_changes_nothing() -> None:
    secrets = secrets_of(at("http://127.0.0.1:9", "ollama").with_options(api_key="EMPTY"))
    masking, said = MaskedStream(secrets), b"It is EMPTY \\u0041"
    assert (masking.feed(said), masking.close()) == (said, b"")
    assert secrets.mask_error(said) == b"It is [hidden] \\u0041"


@pytest.mark.parametrize("after", [0, 100, 200, 1000])
@pytest.mark.parametrize("size", [1, 5, 64, 4096])
def test_a_spelled_secret_is_found_whatever_comes_after_it_in_its_line(size: int, after: int) -> None:
    key = "sk-sentinel-0123456789abcdef"
    spelled = key.replace("-", "\\u002D")
    data = f'data: {{"text":"It is {spelled}.","more":"{"x" * after}"}}\n\n'.encode()
    stream = MaskedStream(ProviderSecrets([key]))
    sent = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.close()
    assert sent == data.replace(spelled.encode(), b"[hidden]")
