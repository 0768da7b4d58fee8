"""Where a URL leads, told without what may be secret in it."""

import pytest

from toolwire.wire.transport import url_without_secrets


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://host/v1", "https://host/v1"),
        ("https://user:canary@host:1/v1?key=canary", "https://host:1/v1"),
        ("https://user:can@ary@host/v1", "https://host/v1"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://host?mail=canary@host", "https://host"),
    ],
)
def test_no_secret_of_a_url_is_told(url: str, told: str) -> None:
    assert url_without_secrets(url) == told
