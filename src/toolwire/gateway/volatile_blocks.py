"""The blocks at the beginning of a conversation that differ from its last request: no prompt cache matches them.

Rules of this file:
- A block is compared with the same block of the last request, and never judged by its text. Programs put dates, states
  of repositories and numbers of tokens into their prompts, and most of these are the same in each turn.
- Blocks are the texts of the system prompt, and the texts of the user's first message but the last one. Programs put
  their own texts before the user's. Cache marks are not compared.
- A conversation is known by its first call and the user's own text. Without a call nothing is compared, because two
  conversations may begin alike. The ids of some servers are the same in each conversation.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolwire.types import Request, Text, ToolCall
from toolwire.waiting.sized_cache import CacheShare

_DIGEST = 16
_FIRST_ROLES = frozenset({"system", "developer", "user"})


class _Beginning(Struct, frozen=True):
    """The digests of a request's first blocks, the number of its messages, and the blocks that had changed in it."""

    digests: dict[str, bytes]
    messages: int
    changed: tuple[str, ...] = ()


def find_changed_blocks(cache: CacheShare, source: str, request: Request) -> tuple[str, ...]:
    """Return the paths of the first blocks that differ from the last request of the conversation, and cache the blocks.

    `cache` has the conversations of one owner, and `source` is the wire of the request. A request that is sent again,
    to another provider, is compared as it was at first.
    """
    blocks, own_text = _first_blocks(request)
    call = next((part for message in request.messages for part in message.parts if type(part) is ToolCall), None)
    if call is None:
        return ()
    key = "beginning", source, _digest(f"{call.id}\n{call.name}\n{call.raw or call.plain_arguments}\n{own_text}")
    now = {path: _digest(text) for path, text in blocks}
    before: _Beginning | None = cache.get(key)
    if before is not None and (before.digests, before.messages) == (now, len(request.messages)):
        return before.changed
    changed = () if before is None else tuple(_differences(before.digests, now))
    cache.put(key, _Beginning(now, len(request.messages), changed), sum(len(path) + _DIGEST for path in now))
    return changed


def _differences(before: dict[str, bytes], now: dict[str, bytes]) -> Iterator[str]:
    """Yield the paths of the blocks that differ. If there are more or fewer of them, only the first one is known."""
    differing = [path for path in now if before.get(path) != now[path]]
    yield from differing if before.keys() == now.keys() else differing[:1]


def _first_blocks(request: Request) -> tuple[list[tuple[str, str]], str]:
    """Return the path and the text of each block, and the user's own text."""
    blocks = list(_texts("system", request.context.system))
    own_text: int | None = None
    for index, message in enumerate(request.messages):
        if message.role not in _FIRST_ROLES:
            break
        texts = list(_texts(f"messages[{index}].content", message.content))
        blocks += texts
        own_text = len(blocks) - 1 if texts and message.role == "user" else own_text
    return blocks, "" if own_text is None else blocks.pop(own_text)[1]


def _texts(path: str, content: Any) -> Iterator[tuple[str, str]]:
    if type(content) is str:
        yield path, content
    for index, part in enumerate(content if isinstance(content, list | tuple) else ()):
        if type(part) is Text:
            yield f"{path}[{index}]", part.text


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST).digest()
