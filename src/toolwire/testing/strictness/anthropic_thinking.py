"""Thinking of the Messages API: what binds it, and what is refused when it comes back otherwise.

Rules of this file:
- A signature binds the words of a thought. On newer models it also binds all that stood before: the system
  prompt, the tools and every earlier block, whatever the spelling and the cache marks.
- Which model wants what, `encoding/families.json` says.
"""

from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.sealing import digest, is_token, seal
from toolwire.testing.strictness.asked import Asked, Rejection

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
LEAST_BUDGET = 1024


def blocks_of(content: Any) -> list[Any]:
    """Give content as blocks; a text is one."""
    if type(content) is str:
        return [{"type": "text", "text": content}]
    return content if type(content) is list else []


def merged(messages: Any) -> list[tuple[str, list[Any]]]:
    """Give the turns of a conversation: messages of one role that follow each other are one."""
    turns: list[tuple[str, list[Any]]] = []
    for message in messages:
        blocks = blocks_of(message["content"])
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    return turns


def _bare(value: Any) -> Any:
    """Leave out what is not compared: cache marks, and keys that say nothing."""
    if type(value) is dict:
        return {
            key: _bare(inner)
            for key, inner in value.items()
            if inner is not None and key not in ("cache_control", "citations")
        }
    return [_bare(inner) for inner in value] if type(value) is list else value


def prefix_of(asked: Asked, place: int | None, before: list[Any]) -> str:
    """Digest what a thought is bound to: all before the message at `place`, and what its turn said before.

    Without a place, it is a thought of the answer, which follows all messages.
    """
    if not asked.judged or not family_of(asked.model).thoughts_bound:
        return ""
    body = asked.body
    turns = merged(body["messages"][:place])
    if turns and turns[-1][0] == "assistant":
        before = [*turns.pop()[1], *before]
    return digest(*_bare([blocks_of(body.get("system")), body.get("tools") or [], turns, before])).hex()


def check_thinking(asked: Asked) -> Iterator[Rejection]:
    """Check each thought that comes back, and the setting."""
    yield from _check_setting(asked)
    for place, message in enumerate(asked.body["messages"]):
        if message["role"] != "assistant":
            continue
        blocks = blocks_of(message["content"])
        for step, block in enumerate(blocks):
            if block["type"] == "thinking":
                yield from _check_thought(asked, place, step, block, blocks[:step])
            elif block["type"] == "redacted_thinking" and not _is_known(asked, block["data"]):
                yield Rejection(f"messages.{place}.content.{step}: Invalid `data` in `redacted_thinking` block")
    yield from _check_first(asked)


def _is_known(asked: Asked, text: Any) -> bool:
    return is_token(text) or text in asked.memory.signatures


def _check_thought(
    asked: Asked, place: int, step: int, block: dict[str, Any], before: list[Any]
) -> Iterator[Rejection]:
    at, given = f"messages.{place}.content.{step}", block["signature"]
    if given in asked.memory.signatures or given == seal(block["thinking"], prefix_of(asked, place, before)):
        return
    if family_of(asked.model).thoughts_bound and is_seal_of_some(given):
        text = "Invalid signature in thinking block. The block is bound to a different conversation"
        yield Rejection(f"{at}: {text}")
    yield Rejection(f"{at}: Invalid `signature` in `thinking` block")


def is_seal_of_some(given: str) -> bool:
    """Whether a signature has the form of those that are made here."""
    return len(given) == len(seal("")) and given.startswith(seal("")[:20])


def _check_first(asked: Asked) -> Iterator[Rejection]:
    """Check that a turn whose tools are being run begins with its thinking, where that has a budget."""
    setting = asked.body.get("thinking") or {}
    turns = merged(asked.body["messages"])
    if setting.get("type") != "enabled" or len(turns) < 2 or turns[-2][0] != "assistant":
        return
    kinds = [block["type"] for block in turns[-2][1]]
    if "tool_use" in kinds and any(block["type"] == "tool_result" for block in turns[-1][1]):
        if kinds[0] in THOUGHTS:
            return
        place = len(asked.body["messages"]) - 1
        while asked.body["messages"][place]["role"] != "assistant":
            place -= 1
        text = (
            f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with a "
            "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )
        yield Rejection(text)


def _check_setting(asked: Asked) -> Iterator[Rejection]:
    setting = asked.body.get("thinking") or {}
    kind = setting.get("type")
    budget: Any = setting.get("budget_tokens")
    family = family_of(asked.model)
    adaptive_only = family.thinking_budget is False
    known = ("adaptive", "enabled", "disabled", "between_tools")
    if setting and kind not in known:
        text = f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
        yield Rejection(text + ", ".join(f"'{word}'" for word in known))
    if kind == "enabled":
        if adaptive_only:
            text = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            yield Rejection(f'{text}"output_config.effort" to control thinking behavior.')
        if type(budget) is not int:
            yield Rejection("thinking.enabled.budget_tokens: Field required")
        if budget < LEAST_BUDGET:
            text = f"thinking.enabled.budget_tokens: Input should be greater than or equal to {LEAST_BUDGET}"
            yield Rejection(text)
        if budget >= asked.body["max_tokens"]:
            yield Rejection("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if kind == "disabled" and family.always_thinks:
        yield Rejection('"thinking.type.disabled" is not supported for this model.')
    forced = (asked.body.get("tool_choice") or {}).get("type") in ("any", "tool")
    thinks = kind == "enabled" or (kind == "adaptive" and adaptive_only)
    if forced and (thinks or family.always_thinks):
        yield Rejection("Thinking may not be enabled when tool_choice forces tool use.")
