"""All rows of the public table of nasty streams; `tests/nasty_row.py` says what a row is."""

from tests.nasty_anthropic import ANTHROPIC
from tests.nasty_chat import CHAT
from tests.nasty_gemini import GEMINI
from tests.nasty_ollama import OLLAMA
from tests.nasty_responses import RESPONSES
from tests.nasty_row import Row

TABLE: tuple[Row, ...] = (*CHAT, *ANTHROPIC, *RESPONSES, *GEMINI, *OLLAMA)
