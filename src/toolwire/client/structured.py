"""An answer in the form of a type, from every provider: natively, by a tool, or by instruction.

Rules of this file:
- Schema and reading are those of tool parameters: what may stand in a `@tool` may be wanted as an answer. A JSON Schema
  is taken as it is: full Draft 2020-12; its answer stays JSON.
- An answer is an object of named fields, so that it tells where it ends, and every wire can ask for it. What is no such
  object stands in its one field `value`, and is taken out of it again.
- The first way counts that the server offers and whose dialect can say the whole of it: natively and held to the
  schema, natively, by a forced tool, by instruction. The last one is always there. What a dialect can say, its own
  encoder tells: a way is taken only where nothing that it rests on is lost.
- The tools of the caller come first. With them, the answer's own tool is one more, and some call is required at each
  turn: so the model goes on with tools for as long as it wants to, and ends with the answer.
- JSON is the whole text or its only fenced block, exactly; it is looked for nowhere else, and never repaired. A value
  is given only after the full validation, whichever way it came.
- An answer that was refused, cut off or is not the last one is not read at all. One that was refused or cut off ends
  the run: the next one would be the same again.
- The model reads each problem with its place, and nothing of its answer at length: it has written that.
- Requests of the loop stay plain: what asks for the form is added to each when it is sent. In the end the answer's tool
  was never there: an answer that came by it is the JSON of its arguments, and what was wrong with one is words of the
  user.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.finish import CUT
from toolwire.errors import InvalidField, InvalidSchema, NoStructuredOutput
from toolwire.loop.steps import ANSWER, Done, Ending
from toolwire.providers import Provider
from toolwire.resolvers.functions.annotations import json_type_of
from toolwire.resolvers.functions.json_types import UnreadableValue
from toolwire.schema import prune_nulls
from toolwire.schema.document import measure
from toolwire.schema.validator import Validator
from toolwire.schema.wrapping import VALUE, has_named_fields, wrap
from toolwire.text.overlay.requests import append_to_system
from toolwire.text.tagged.zones import Zone, zone_of
from toolwire.types import (
    Loss,
    Message,
    Output,
    Refusal,
    Request,
    Response,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.types.frozen import copied
from toolwire.wire.arguments import argument_text, parse_arguments

PATH = "output"
_Kind = Literal["native", "tool", "instruction"]
_OF_TOOL = (
    "Gives the final answer: its arguments are the answer. Call it once and alone, as the last thing, when "
    "nothing else is left to do; answer in no other way."
)
_INSTRUCTION = """\
# Form of the answer

Your final answer is one JSON object and nothing else: no words before or after it. It is valid under this
JSON Schema:

{schema}"""
_MAX_PROBLEM = 600
_REFUSED = frozenset({"refusal", "content_filter"})
_NOT_CALLED = f"the answer must be given by calling {ANSWER}, not in words"
_MENDABLE = frozenset({"empty", "no_json", "invalid"})
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_AGAIN = "Give the whole answer again, in the form that was asked for."
TOO_EARLY = (
    "not taken: other tools were called together with it. Give the answer again, alone, when you have read "
    "their results."
)
_ANSWERED: frozenset[Ending] = frozenset({"answer", "terminal"})


class WantedForm(Struct, frozen=True):
    """The form of an answer: the model is shown `schema`; if it is `wrapped`, the value is its one field."""

    schema: dict[str, Any]
    wrapped: bool
    validator: Validator
    convert: Callable[[Any], Any]

    @classmethod
    def of(cls, output: Any) -> Self:
        """Read what is wanted: a type, any annotation of a tool's parameter, or a JSON Schema."""
        made = None if isinstance(output, Mapping) else json_type_of(output, path=PATH)
        try:
            schema, convert = (_own_copy(output), copied) if made is None else (made.schema, made.read)
            wrapped = not has_named_fields(schema)
            if wrapped:
                schema = wrap(schema)
            return cls(schema, wrapped, Validator(schema), convert)
        except InvalidSchema as problem:
            message = str(problem).removeprefix(f"{problem.path}: ")
            path = f"{PATH}.{problem.path}" if problem.path else PATH
            raise InvalidSchema(message, path=path) from None

    def problems(self, answer: dict[str, Any]) -> list[str]:
        """Say what is wrong with an answer; nothing if it is valid."""
        return self.validator.problems(answer)

    def value(self, answer: dict[str, Any]) -> Any:
        """Make the value of a valid answer; one that cannot be read all the same is InvalidField."""
        try:
            return self.convert(answer[VALUE] if self.wrapped else answer)
        except UnreadableValue as problem:
            field = (problem.inside(VALUE) if self.wrapped else problem).path() or "answer"
            raise InvalidField(field, problem.reason) from problem.__cause__
        except RecursionError:
            raise InvalidField("answer", "is nested too deeply") from None


def _own_copy(schema: Mapping[Any, Any]) -> dict[str, Any]:
    """Copy a schema of the caller's; one that is too deep to be walked is refused first."""
    given = dict(schema)
    measure(given)
    return copied(given)  # type: ignore[no-any-return]


class Way(Struct, frozen=True):
    """How the form of an answer is asked for; `strict` holds the model to a schema that can be said whole."""

    kind: _Kind
    strict: bool = False


_WAYS = (Way("native", strict=True), Way("native"), Way("tool"), Way("instruction"))


def way_of(provider: Provider, wanted: WantedForm, request: Request, kind: _Kind | None = None) -> Way:
    """Choose the way; `kind` is one that the caller insists on, whatever is known of the server."""
    ways = [way for way in _WAYS if kind in (None, way.kind)]
    if not ways:
        raise InvalidField("way", f"must be native, tool or instruction, not {kind!r}", path="output")
    offered = (way for way in ways[:-1] if kind is not None or _offers(provider, way, request))
    return next((way for way in offered if _says(provider, way, wanted, request)), ways[-1])


def _offers(provider: Provider, way: Way, request: Request) -> bool:
    """Whether the server has a way for this model, beside the tools of the request."""
    can, family = provider.capabilities, family_of(request.model)
    if provider.completions:
        return False
    if way.kind == "tool":
        # A server that keeps the conversation would wait for the result of the call.
        return can.native_tool_calls and can.tool_choice and request.provider_state is None
    if not can.structured_output or family.structured_output is False:
        return False
    beside = can.native_tool_calls and can.structured_output_with_tools
    return not request.tools or (beside and family.structured_output_with_tools is not False)


def _says(provider: Provider, way: Way, wanted: WantedForm, request: Request) -> bool:
    """Whether the dialect can say a way: encoded with it, the request loses nothing of it."""
    asked = prepare(replace(request, context=replace(request.context, messages=[_ANY])), wanted, way)
    losses = provider.speaks().encode_request(asked).losses
    rests_on = {"native": ("output",), "tool": (f"tools[{len(asked.tools) - 1}]", "tool_choice")}[way.kind]
    return not any(_breaks(loss, way) for loss in losses if loss.path.startswith(rests_on))


_ANY = Message("user", "?")


def _breaks(loss: Loss, way: Way) -> bool:
    """Whether a loss leaves less than the way: what is said nearly so may keep out what is wanted."""
    if way.strict and loss.path == "output.strict":
        return True
    whole = loss.path in ("output", "tool_choice", "tool_choice.names")
    return loss.severity == "semantic" and (loss.action == "approximated" or whole)


def prepare(request: Request, wanted: WantedForm, way: Way) -> Request:
    """Ask for the form of the answer; the request is that of a turn, without what this adds to it."""
    if any(getattr(tool, "name", None) == ANSWER for tool in request.tools):
        raise InvalidField("tools", f"has a tool named {ANSWER}: that name is reserved for the answer")
    if way.kind == "native":
        output = Output("schema", wanted.schema, strict=True if way.strict else None)
        return replace(request, output=output)
    context = request.context
    if way.kind == "tool":
        tools = [*context.tools, Tool(ANSWER, _OF_TOOL, wanted.schema)]
        choice = _choice(request)
        return replace(request, context=replace(context, tools=tools), tool_choice=choice, output=None)
    words = _INSTRUCTION.format(schema=json.dumps(wanted.schema, ensure_ascii=False))
    system, messages = append_to_system(context.system, list(context.messages), words)
    return replace(request, context=replace(context, system=system, messages=messages), output=None)


def _choice(request: Request) -> ToolChoice:
    """Require the answer's tool, or any where the caller has tools; what the caller requires comes first."""
    choice = request.tool_choice or ToolChoice("auto")
    if not request.tools or choice.mode == "none":
        return ToolChoice("required", [ANSWER])
    if choice.mode == "required":
        return choice
    return ToolChoice("required", None if choice.names is None else [*choice.names, ANSWER])


class ReadValue(Struct, frozen=True):
    """The value of an answer."""

    value: Any


class AnswerProblems(Struct, frozen=True):
    """Why an answer has no value: each problem with its place, and the text that came.

    `unfinished`: calls are to be run first, or the model paused. `refused` and `cut_off` would be the same
    again. The others can be mended.
    """

    kind: Literal["refused", "cut_off", "unfinished", "empty", "no_json", "invalid"]
    problems: tuple[str, ...]
    text: str = ""

    @property
    def mendable(self) -> bool:
        """Whether the model may do better if it is told."""
        return self.kind in _MENDABLE


def read(response: Response, wanted: WantedForm, way: Way) -> ReadValue | AnswerProblems:
    """Read an answer."""
    calls = [part for part in response.parts if type(part) is ToolCall]
    answers = [call for call in calls if call.name == ANSWER]
    text = answers[0].raw or "" if answers else response.message.text
    unread = _unread(response, others=len(calls) > len(answers))
    if unread is not None:
        return AnswerProblems(*unread, text)
    if len(answers) > 1:
        return AnswerProblems("invalid", (f"{len(answers)} answers came, where one was expected",), text)
    if answers:
        answer, problem = answers[0].plain_arguments, None if answers[0].runs else answers[0].error or "cut off"
    elif not text.strip():
        return AnswerProblems("empty", ("the answer says nothing",), text)
    else:
        answer, problem = _object_in(text, way)
    if problem is not None:
        return AnswerProblems("no_json", (shortened(problem),), text)
    return _valued(answer, wanted, way, text)


def _unread(response: Response, *, others: bool) -> tuple[Any, tuple[str, ...]] | None:
    """Say why an answer is not to be read, if it is not."""
    reason = response.finish_reason
    refusals = [part.text for part in response.parts if type(part) is Refusal]
    if refusals or reason in _REFUSED:
        return "refused", (shortened("; ".join(filter(None, refusals)) or f"it ended with {reason}"),)
    if reason in CUT:
        return "cut_off", (f"the answer was cut off before it was whole ({reason})",)
    if others:
        return "unfinished", ("there are calls to run before the answer",)
    return ("unfinished", ("the model paused",)) if reason == "pause" else None


def _valued(answer: dict[str, Any], wanted: WantedForm, way: Way, text: str) -> ReadValue | AnswerProblems:
    if way.strict:
        answer = prune_nulls(answer, wanted.schema)
    problems = wanted.problems(answer)
    if not problems:
        try:
            return ReadValue(wanted.value(answer))
        except InvalidField as problem:
            problems = [f"field {problem.field}: {problem.reason}"]
    return AnswerProblems("invalid", tuple(map(shortened, problems)), text)


def shortened(text: str) -> str:
    """Give the beginning of a problem that says too much."""
    return text if len(text) <= _MAX_PROBLEM else f"{text[:_MAX_PROBLEM]}..."


def _object_in(text: str, way: Way) -> tuple[dict[str, Any], str | None]:
    """MarkSearch the object that a text is, or that stands in its only block; a thought before is passed over."""
    thought = _THOUGHT.match(text)
    words = text[thought.end() :] if thought is not None else text
    if not words.lstrip().startswith("{"):
        blocks = _blocks(words)
        if not blocks:
            return {}, _NOT_CALLED if way.kind == "tool" else "the answer is not a JSON object"
        if len(blocks) > 1:
            return {}, f"{len(blocks)} blocks of code came, where one JSON object was expected"
        words = blocks[0]
    answer, problem = parse_arguments(words)
    if problem is None and not words.lstrip().startswith("{"):
        problem = "the block is not a JSON object"
    return answer, problem


def _blocks(text: str) -> list[str]:
    """List what stands in the fenced blocks of a text that have an end."""
    blocks: list[str] = []
    zone: Zone | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if zone is None:
            zone, lines = zone_of(line), []
        elif not zone.ends(line):
            lines.append(line)
        else:
            if zone.length:
                blocks.append("\n".join(lines))
            zone = None
    return blocks


def repair(problems: AnswerProblems) -> str:
    """Say what is wrong with an answer, so that the next one can be right."""
    listed = "\n".join(f"- {problem}" for problem in problems.problems)
    return f"The answer cannot be used:\n{listed}\n\n{_AGAIN}"


def is_answer(part: Any) -> TypeGuard[ToolCall]:
    """Whether a part is a call of the answer's tool, which the user never sees."""
    return type(part) is ToolCall and part.name == ANSWER


def settled(response: Response) -> Response:
    """Give a response whose answer is words, also where it came as a call."""
    if not response.choices or not any(map(is_answer, response.parts)):
        return response
    first, *others = response.choices
    reason = "stop" if first.finish_reason == "tool_calls" else first.finish_reason
    first = replace(first, message=_in_words(first.message), finish_reason=reason)
    return replace(response, choices=[first, *others])


def settled_history(messages: Sequence[Message]) -> list[Message]:
    """Give messages without the answer's tool: what was called by it, and what came of that, in words.

    A call beside others was not taken, and goes with its result: there is no place for words between them.
    """
    made: list[Message] = []
    alone = True
    for message in messages:
        if any(map(is_answer, message.parts)):
            alone = all(is_answer(part) for part in message.parts if type(part) is ToolCall)
            message = _in_words(message) if alone else _without(message)  # noqa: PLW2901 - it is what is kept
        elif any(map(_answers, message.parts)):
            message = _told(message) if alone else _without(message)  # noqa: PLW2901 - it is what is kept
        if message.content != []:
            made.append(message)
    return made


def _answers(part: Any) -> TypeGuard[ToolResult]:
    return type(part) is ToolResult and part.name == ANSWER


def _told(message: Message) -> Message:
    """Give what was wrong with answers as words of the user."""
    return Message("user", "\n".join(str(part.content) for part in message.parts if _answers(part)))


def _in_words(message: Message) -> Message:
    """Give an answer with the JSON of its call; words beside the call are no part of the answer."""
    called = any(map(is_answer, message.parts))
    kept = [part for part in message.parts if not (called and type(part) is Text)]
    return replace(message, content=[Text(argument_text(part)) if is_answer(part) else part for part in kept])


def _without(message: Message) -> Message:
    """Give a message without calls of the answer's tool, or their results: it is the model's own no more."""
    kept = [part for part in message.parts if not (is_answer(part) or _answers(part))]
    return replace(message, content=kept, opaque=None)


class AnswerForm(Struct, frozen=True):
    """What is wanted of an answer, and the way to it."""

    wanted: WantedForm
    way: Way

    @classmethod
    def of(cls, output: Any, provider: Provider, request: Request) -> Self:
        """Choose the way to an answer of this type or schema."""
        wanted = WantedForm.of(output)
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
        calls = [call for call in done.calls if call.name != ANSWER]
        done = replace(done, messages=messages, calls=calls, response=response)
        if done.ending not in _ANSWERED or response is None:
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
        answer = read(response, self.wanted, self.way)
        if isinstance(answer, AnswerProblems):
            raise NoStructuredOutput(answer.kind, answer.problems, answer.text, done.response)
        raise NoStructuredOutput(done.ending, (done.reason,), response.message.text, done.response)
