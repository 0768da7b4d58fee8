"""How a model wrote calls in its text."""

from toolwire.types.spelling.base import WireSpelling


class TextCallSpelling(WireSpelling, frozen=True, tag="text-tagged.call", gc=False):
    """How a model wrote a call in its text.

    - `block`: the text of the call. It is sent to the model unchanged, so that a server can reuse its cache
      (https://docs.vllm.ai/en/latest/features/automatic_prefix_caching/).
    - `meaning`: the digest of the call that the block means. The block is written as long as the call is the same.
    - `is_first`: the text began with the call, without words before it.
    - `has_no_id`: the block has no id, as in most formats (`toolwire/text/formats.toml`).
    """

    block: str | None = None
    meaning: str = ""
    is_first: bool = False
    has_no_id: bool = False
