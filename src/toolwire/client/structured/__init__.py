"""An answer in the form of a type, from every provider: natively, by a tool, or by instruction."""

from toolwire.client.structured.form import AnswerForm
from toolwire.client.structured.mending import answer_to, next_messages, repair, settled, settled_history
from toolwire.client.structured.reading import AnswerProblems, ReadValue, read
from toolwire.client.structured.wanted import WantedForm
from toolwire.client.structured.ways import ATTEMPTS, Way, prepare, way_of
from toolwire.loop.steps import ANSWER

__all__ = [
    "ANSWER",
    "ATTEMPTS",
    "AnswerForm",
    "AnswerProblems",
    "ReadValue",
    "WantedForm",
    "Way",
    "answer_to",
    "next_messages",
    "prepare",
    "read",
    "repair",
    "settled",
    "settled_history",
    "way_of",
]
