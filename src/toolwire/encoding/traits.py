"""What is particular to a wire, where code above the dialects has to know it.

Rule: code outside a dialect asks for a trait, and never for the dialect's name.
"""

from msgspec import Struct


class WireTraits(Struct, frozen=True, kw_only=True):
    """The particulars of one wire, of its servers and of its clients."""

    history_key: str
    """The field of a request that holds its messages."""
    model_role: str = "assistant"
    """The role of the model's messages."""
    model_items: tuple[str, ...] = ()
    """The types of the items that the model writes, where a history holds items beside messages."""
    generated_id_prefix: str = ""
    """How the ids begin that the decoder numbers through, where calls have no ids on the wire."""
    repeats_call_ids: bool = False
    """Whether clients send the id of a call back as they received it."""
    splits_turns: bool = False
    """Whether clients may send one turn of the model as several messages."""
    has_response_ids: bool = False
    """Whether a response has an id."""
    has_response_times: bool = False
    """Whether a response names the time at which it was created."""
    stores_responses: bool = False
    """Whether servers store a response unless the request forbids it."""
    shows_foreign_thinking: bool = False
    """Whether clients are shown the thinking of another wire's model, under a signature of ours."""
    has_billing_line: bool = False
    """Whether clients begin the system prompt with a line by which their own vendor bills."""
    wraps_output: bool = False
    """Whether servers take a schema of an answer only if it is an object's; another value is a field of one."""
    settings_by_history: frozenset[str] = frozenset()
    """The fields of a `Request` whose encoding depends on the messages of the request."""
    losses_after_history: frozenset[str] = frozenset()
    """The concepts whose losses the encoder reports after those of the messages."""
