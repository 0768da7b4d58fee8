"""The form of one run's answer, as its loop minds it: what is asked for, what will do, what is given.

Rules of this file:
- Requests of the loop stay plain: what asks for the form is added to each when it is sent.
- An answer that was refused or cut off ends the run: the next one would be the same again.
- A run whose answer has the form ends with its value; any other end has none.
"""

from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.structured.mending import TOO_EARLY, is_answer, repair, settled, settled_history
from toolwire.client.structured.reading import AnswerProblems, ReadValue, read
from toolwire.client.structured.wanted import WantedForm
from toolwire.client.structured.ways import Served, Way, prepare, way_of
from toolwire.errors import NoStructuredOutput
from toolwire.loop.steps import Done, Ending
from toolwire.types import Request, Response

ANSWERED: frozenset[Ending] = frozenset({"answer", "terminal"})


class AnswerForm(Struct, frozen=True):
    """What is wanted of an answer, and the way to it."""

    wanted: WantedForm
    way: Way

    @classmethod
    def of(cls, given: Any, provider: Served, request: Request) -> Self:
        """Choose the way to an answer of this type or schema."""
        wanted = WantedForm.of(given)
        return cls(wanted, way_of(provider, wanted, request))

    def asked(self, request: Request) -> Request:
        """Ask for the form."""
        return prepare(request, self.wanted, self.way)

    def mended(self, response: Response) -> str | None:
        """Say what an answer has to be mended in, if that is of use."""
        match read(response, self.wanted, self.way):
            case AnswerProblems(kind="unfinished") if any(map(is_answer, response.parts)):
                return TOO_EARLY
            case AnswerProblems(mendable=True) as problems:
                return repair(problems)
        return None

    def finished(self, done: Done) -> Done:
        """Give the end with its value, and without what only asked for it."""
        messages = settled_history(done.messages)
        response = None if done.response is None else settled(done.response)
        done = replace(done, messages=messages, calls=[], response=response)
        if done.ending not in ANSWERED or response is None:
            return done
        match read(response, self.wanted, self.way):
            case ReadValue(value):
                return replace(done, ending="answer", output=value)
            case problems:
                return replace(done, ending="error", reason="; ".join(problems.problems))

    def value(self, done: Done) -> Any:
        """Give the value of an end, or raise why it has none."""
        if done.ending == "answer":
            return done.output
        response = done.response or Response()
        found = read(response, self.wanted, self.way)
        if isinstance(found, AnswerProblems):
            raise NoStructuredOutput(found.kind, found.problems, found.text, done.response)
        raise NoStructuredOutput(done.ending, (done.reason,), response.message.text, done.response)
