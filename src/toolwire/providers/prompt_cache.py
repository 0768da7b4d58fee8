"""The additions to a request for the provider's prompt cache: a cache mark, and the key of the client's session.

Rules of this file:
- Some providers cache only what a request marks. A request that has no marks gets one, unless it is shorter than the
  shortest prompt that the model's provider caches. A request with marks of its own gets none.
- Some providers cache by a key as well. The key is a hash, so no text of the client is in it. It is the same for all
  turns of a conversation.
- Each addition is after all other members of the body. So a longer conversation still begins with the same bytes.
- Each addition is a formal loss with the action `added`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.dialects import Dialect
from toolwire.encoding.cache_marks import marks_in
from toolwire.encoding.traits import WireTraits
from toolwire.providers import catalogue
from toolwire.providers.known import Provider
from toolwire.types import Encoded, Loss, Message, Request, Tool
from toolwire.types.encoded import EncodedBytes
from toolwire.types.frozen import copy_json

# A token has two bytes or more in all usual text. A request with fewer bytes is certainly too short.
_BYTES_OF_TOKEN = 2
_KEY_FIELD = "cache_key"
_MEDIA_FIELDS = ("text", "url", "file_id", "data")
_write = msgspec.json.Encoder().encode


class CacheUse(Struct, frozen=True, kw_only=True):
    """How a caller uses prompt caches.

    - `is_on`: whether anything is added.
    - `scope`: keys of different scopes differ.
    - `client_session`: the session's name in a header of the client.
    """

    is_on: bool = True
    scope: str = ""
    client_session: str = ""


class ConversationStart(Struct, frozen=True):
    """The parts of a request that are the same in all turns of its conversation.

    - `session`: the name of the client's session. Empty if the request has none.
    - `is_client_key`: whether the session is a key for the prompt cache that the client chose.
    - `user`: the name of the user.
    - `system`, `first`: the digests of the system prompt and of the user's first message.
    """

    session: str = ""
    user: str = ""
    system: bytes = b""
    first: bytes = b""
    is_client_key: bool = False

    @classmethod
    def of(cls, request: Request, source: WireTraits | None = None) -> "ConversationStart":
        """Return the start of the conversation in `request`, which was read from a wire with the traits `source`."""
        session, user = request.cache_key or "", ""
        if not session and source is not None and source.session_in_user and request.user:
            session = source.session_of_user(request.user)
            user = "" if session else request.user
        messages = request.messages
        leading = [message for message in messages[: _first_user(messages)] if message.role in ("system", "developer")]
        system = _digest([*_texts_of(request.context.system), *(text for one in leading for text in _texts(one))])
        return cls(session, user, system, is_client_key=bool(request.cache_key)).with_first(messages)

    def with_first(self, messages: Sequence[Message]) -> "ConversationStart":
        """Return the start with the user's first message in `messages`, if it has none."""
        index = _first_user(messages)
        if self.first or index == len(messages):
            return self
        return msgspec.structs.replace(self, first=_digest(_texts(messages[index])))

    def key(self, use: CacheUse) -> str | None:
        """Return the key of the conversation, or None if it has not begun."""
        if session := self.session or use.client_session:
            digest = _digest(["session", use.scope, session])
        elif self.first:
            digest = _digest(["start", use.scope, self.user, self.system.hex(), self.first.hex()])
        else:
            return None
        return f"tw-session-{digest.hex()[:32]}"  # it must not look like a key of the gateway


def _first_user(messages: Sequence[Message]) -> int:
    """Return the index of the user's first message, or the number of messages if there is none."""
    return next((index for index, message in enumerate(messages) if message.role == "user"), len(messages))


def _texts(message: Message) -> list[str]:
    return _texts_of(message.content)


def _texts_of(content: Any) -> list[str]:
    """Return the texts and the media of a content. Marks and the spelling of a wire are left out."""
    if type(content) is str:
        return [content] if content else []
    values = [getattr(part, field, None) for part in content or () for field in _MEDIA_FIELDS]
    return [str(value) for value in values if value]


def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode(errors="surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.digest()


def takes_key(target: Dialect, provider: Provider | None, quirks: Mapping[str, Any]) -> bool:
    """Return True if a server takes the key of a session. A dialect without quirks is its vendor's own server."""
    if _KEY_FIELD not in target.SETTING_PATHS:
        return False
    return not quirks if provider is None else provider.capabilities.prompt_cache


def with_key(encoded: Encoded, key: str, target: Dialect, *, replaces: bool = False) -> Encoded:
    """Return a request with the key of its session. `replaces` says that the client's own key is the session."""
    member = target.SETTING_PATHS[_KEY_FIELD]
    if replaces:
        loss = Loss(member, _KEY_FIELD, "approximated", "a key that is derived from it is sent", "formal")
    else:
        detail = "the provider finds cached prompts by a key, which is derived from the conversation"
        loss = Loss(member, _KEY_FIELD, "added", detail, "formal")
    return _with_members(encoded, {member: key}, (loss,))


def with_due_mark(
    encoded: Encoded, request: Request | None, model: str | None, target: WireTraits, *, marks_blocks: bool
) -> Encoded:
    """Return a request with a mark, unless it has marks of its own or is too short, or its wire has no such mark.

    `request` is what was encoded. It is None for a cached translation, which has no marks.
    """
    if not target.request_cache_mark or (request is not None and has_marks(request, marks_blocks=marks_blocks)):
        return encoded
    return encoded if _is_too_short(encoded, model) else _with_mark(encoded, target, marks_blocks=marks_blocks)


def _with_mark(encoded: Encoded, target: WireTraits, *, marks_blocks: bool = False) -> Encoded:
    """Return a request that asks the provider to cache it.

    With `marks_blocks`, the server takes marks only at blocks, and not for the whole request.
    """
    detail = "the provider caches only what is marked"
    if not marks_blocks:
        members = copy_json(dict(target.request_cache_mark))
        losses = [Loss(member, "cache_mark", "added", detail, "formal") for member in members]
        return _with_members(encoded, members, losses)
    if target.mark_blocks is None:
        return encoded
    body, paths = target.mark_blocks(encoded.body)
    losses = [Loss(path, "cache_mark", "added", detail, "formal") for path in paths]
    return Encoded(encoded.path, body, (*encoded.losses, *losses))


def _with_members(encoded: Encoded, members: Mapping[str, Any], losses: Iterable[Loss]) -> Encoded:
    """Return a request with more members after all others. Bytes that were encoded earlier are not parsed."""
    losses = (*encoded.losses, *losses)
    if not isinstance(encoded, EncodedBytes):
        return Encoded(encoded.path, {**encoded.body, **members}, losses)
    data = encoded.json
    added = b"%b,%b" % (data[:-1], _write(members)[1:])
    return EncodedBytes.of(encoded.path, added, losses)


def has_marks(request: Request, *, marks_blocks: bool = False) -> bool:
    """Return True if a request says itself what is to be cached.

    With `marks_blocks`, the server takes no mark for the whole request, so that this one was not sent.
    """
    is_implicit = request.cache_mode != "explicit" and marks_blocks
    if (request.cache_mode is not None or request.cache_ttl is not None) and not is_implicit:
        return True
    if any(type(tool) is Tool and tool.cache is not None for tool in request.tools):
        return True
    return any(marks_in(request.context.system)) or have_marks(request.messages)


def have_marks(messages: Iterable[Message]) -> bool:
    """Return True if one of the messages has a cache mark."""
    return any(any(marks_in(message.content)) for message in messages)


def _is_too_short(encoded: Encoded, model: str | None) -> bool:
    """Return True if a request is certainly shorter than the shortest prompt that is cached for `model`."""
    known = catalogue.model(model)
    if known is None or known.cache_minimum is None:
        return False
    least = known.cache_minimum * _BYTES_OF_TOKEN
    return len(encoded.json) < least if isinstance(encoded, EncodedBytes) else not _reaches(encoded.body, least)


def _reaches(body: Any, least: int) -> bool:
    """Return True if a JSON value has `least` bytes or more. No more of it is read than necessary."""
    size, waiting = 0, [body]
    while waiting and size < least:
        match waiting.pop():
            case dict(inner):
                waiting += [*inner, *inner.values()]
                size += 4 * len(inner)
            case list(inner):
                waiting += inner
            case str(text):
                size += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
            case other:
                size += len(str(other))
    return size >= least
