"""The session that a client names: in a header, in the key for a prompt cache, or in the id of its user."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toolwire.encoding.traits import WireTraits
from toolwire.gateway.headers import client_session_of
from toolwire.gateway.response_store import text_of


def client_session_in(traits: WireTraits, headers: Mapping[str, str], members: Mapping[str, Any]) -> str:
    """Return the name of the client's session: of a header, of the key for a prompt cache, or of the user's id."""
    session = client_session_of(headers) or text_of(members.get("prompt_cache_key"))
    return session or user_session_in(traits, members)


def user_session_in(traits: WireTraits, members: Mapping[str, Any]) -> str:
    """Return the session that a client names in the id of its user, as Claude Code does. Empty if there is none."""
    if not traits.session_in_user or "metadata" not in members:
        return ""
    return traits.session_of_user(_user_of(members["metadata"]))


def _user_of(metadata: Any) -> str:
    try:
        read = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    user = read.get("user_id") if type(read) is dict else None
    return user if type(user) is str else ""
