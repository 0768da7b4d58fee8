"""How generateContent spells requests."""

from toolwire.types.spelling.base import RequestSpelling


class GeminiRequestSpelling(RequestSpelling, frozen=True, tag="gemini.request", gc=False):
    """How a request of generateContent was spelled.

    - `snake_keys`, `config_snake_keys`, `thinking_snake_keys`: the keys in snake_case, which Google's servers read as
      well (https://protobuf.dev/programming-guides/json/), of the body, its `generationConfig` and the
      `thinkingConfig` in it.
    - `has_opening_turn`: it began with the turn of the user that toolwire adds, since this wire begins with the user.
    - `has_one_content`, `has_one_system_part`: `contents`, or the `parts` of the system instruction, was an object
      instead of a list of one, as in Google's samples for curl
      (https://ai.google.dev/gemini-api/docs/text-generation#system-instructions).
    - `system_role`: the role beside the system instruction. google-genai writes `user`, though there is none.
    - `has_thinking_level`: it had a `thinkingLevel`, so that the model takes one, whichever its family.
    - `has_text_modality`: it asked for `responseModalities` of text alone, which every model gives. pydantic-ai does.
    - `has_enum_output`: the answer is a bare word and no JSON (`responseMimeType` `text/x.enum`,
      https://ai.google.dev/api/generate-content#generationconfig).
    """

    snake_keys: list[str] = []
    config_snake_keys: list[str] = []
    thinking_snake_keys: list[str] = []
    has_opening_turn: bool = False
    has_one_content: bool = False
    has_one_system_part: bool = False
    system_role: str | None = None
    has_thinking_level: bool = False
    has_text_modality: bool = False
    has_enum_output: bool = False

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages or self.has_opening_turn or self.has_one_content
