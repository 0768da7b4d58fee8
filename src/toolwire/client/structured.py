"""Structured output: an answer as the value of a type, with every provider: natively, by a tool, or by instruction.

Rules of this file:
- Schemas and parsing are those of tool parameters: each annotation that a `@tool` accepts is accepted as `output`. A
  JSON Schema is used unchanged, as Draft 2020-12, and its answer stays JSON.
- An answer is an object with named fields: its end is recognisable, and every wire can ask for it. Any other type is
  wrapped in an object with the single field `value`, and unwrapped again.
- The methods, in order: native with a strict schema, native, a forced tool, an instruction. The first one counts that
  the server offers and whose dialect can express it without a loss; the dialect's own encoder decides that. The
  instruction is always possible.
- The caller's tools stay usable. With them, the answer's tool is one more, and every turn requires a call. So the model
  calls tools for as long as it wants, and ends with the answer.
- The JSON is the whole text or its only fenced block. It is not searched for elsewhere, and never repaired. A value is
  returned only after full validation, whatever the method.
- An answer that was refused or cut off is not parsed, and neither is one with further calls. A refused or cut-off
  answer ends the run, because a retry would have the same outcome.
- The model receives each problem with its path, but not its own answer again.
- Requests of the loop do not contain the output request: it is added when a request is sent. The final history does not
  contain the answer's tool: a call of it becomes its JSON as text, and a rejection becomes a user message.
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
from toolwire.types.frozen import copy_json
from toolwire.wire.arguments import argument_text, parse_arguments

PATH = "output"
_MethodKind = Literal["native", "tool", "instruction"]
_TOOL_DESCRIPTION = (
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
_NOT_CALLED_TEXT = f"the answer must be given by calling {ANSWER}, not in words"
_CORRECTABLE = frozenset({"empty", "no_json", "invalid"})
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_RETRY_TEXT = "Give the whole answer again, in the form that was asked for."
TOO_EARLY = (
    "not taken: other tools were called together with it. Give the answer again, alone, when you have read "
    "their results."
)
_ANSWERED: frozenset[Ending] = frozenset({"answer", "terminal"})


class OutputForm(Struct, frozen=True):
    """The form of an answer. The model gets `schema`; if it is `wrapped`, the value is its only field."""

    schema: dict[str, Any]
    wrapped: bool
    validator: Validator
    convert: Callable[[Any], Any]

    @classmethod
    def of(cls, output: Any) -> Self:
        """Return the form for `output`: a type, any annotation of a tool's parameter, or a JSON Schema.

        Raise InvalidSchema if the schema is not valid.
        """
        parameter = None if isinstance(output, Mapping) else json_type_of(output, path=PATH)
        try:
            schema, convert = (
                (_copy_schema(output), copy_json) if parameter is None else (parameter.schema, parameter.read)
            )
            wrapped = not has_named_fields(schema)
            if wrapped:
                schema = wrap(schema)
            return cls(schema, wrapped, Validator(schema), convert)
        except InvalidSchema as problem:
            message = str(problem).removeprefix(f"{problem.path}: ")
            path = f"{PATH}.{problem.path}" if problem.path else PATH
            raise InvalidSchema(message, path=path) from None

    def problems(self, answer: dict[str, Any]) -> list[str]:
        """Return the problems of an answer; empty if it is valid."""
        return self.validator.problems(answer)

    def value(self, answer: dict[str, Any]) -> Any:
        """Return the value of a valid answer. Raise InvalidField if it cannot be converted all the same."""
        try:
            return self.convert(answer[VALUE] if self.wrapped else answer)
        except UnreadableValue as problem:
            field = (problem.inside(VALUE) if self.wrapped else problem).path() or "answer"
            raise InvalidField(field, problem.reason) from problem.__cause__
        except RecursionError:
            raise InvalidField("answer", "is nested too deeply") from None


def _copy_schema(schema: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a copy of the caller's schema. Raise InvalidSchema if it is too deep to be walked."""
    copy = dict(schema)
    measure(copy)
    return copy_json(copy)  # type: ignore[no-any-return]


class OutputMethod(Struct, frozen=True):
    """A method of requesting an answer's form; `strict` makes the server enforce the schema."""

    kind: _MethodKind
    strict: bool = False


_METHODS = (
    OutputMethod("native", strict=True),
    OutputMethod("native"),
    OutputMethod("tool"),
    OutputMethod("instruction"),
)


def choose_method(
    provider: Provider, form: OutputForm, request: Request, kind: _MethodKind | None = None
) -> OutputMethod:
    """Return the method for a request; `kind` is one that the caller requires, whatever is known of the server."""
    methods = [method for method in _METHODS if kind in (None, method.kind)]
    if not methods:
        raise InvalidField("method", f"must be native, tool or instruction, not {kind!r}", path="output")
    offered = (method for method in methods[:-1] if kind is not None or _server_offers(provider, method, request))
    return next((method for method in offered if _dialect_expresses(provider, method, form, request)), methods[-1])


def _server_offers(provider: Provider, method: OutputMethod, request: Request) -> bool:
    """Return True if the server supports a method for this model, beside the tools of the request."""
    capabilities, family = provider.capabilities, family_of(request.model)
    if provider.completions:
        return False
    if method.kind == "tool":
        # A server that keeps the conversation would wait for the result of the call.
        return capabilities.native_tool_calls and capabilities.tool_choice and request.provider_state is None
    if not capabilities.structured_output or family.structured_output is False:
        return False
    with_tools = capabilities.native_tool_calls and capabilities.structured_output_with_tools
    return not request.tools or (with_tools and family.structured_output_with_tools is not False)


def _dialect_expresses(provider: Provider, method: OutputMethod, form: OutputForm, request: Request) -> bool:
    """Return True if the dialect can express a method: the encoded request loses nothing of it."""
    prepared = prepare(replace(request, context=replace(request.context, messages=[_ANY])), form, method)
    losses = provider.speaks().encode_request(prepared).losses
    needed = {"native": ("output",), "tool": (f"tools[{len(prepared.tools) - 1}]", "tool_choice")}[method.kind]
    return not any(_breaks(loss, method) for loss in losses if loss.path.startswith(needed))


_ANY = Message("user", "?")


def _breaks(loss: Loss, method: OutputMethod) -> bool:
    """Return True if a loss makes a method unusable. An approximation may reject what the schema allows."""
    if method.strict and loss.path == "output.strict":
        return True
    is_whole = loss.path in ("output", "tool_choice", "tool_choice.names")
    return loss.severity == "semantic" and (loss.action == "approximated" or is_whole)


def prepare(request: Request, form: OutputForm, method: OutputMethod) -> Request:
    """Return the request of a turn with the output request added.

    Raise InvalidField if a tool has the reserved name.
    """
    if any(getattr(tool, "name", None) == ANSWER for tool in request.tools):
        raise InvalidField("tools", f"has a tool named {ANSWER}: that name is reserved for the answer")
    if method.kind == "native":
        output = Output("schema", form.schema, strict=True if method.strict else None)
        return replace(request, output=output)
    context = request.context
    if method.kind == "tool":
        tools = [*context.tools, Tool(ANSWER, _TOOL_DESCRIPTION, form.schema)]
        choice = _choice(request)
        return replace(request, context=replace(context, tools=tools), tool_choice=choice, output=None)
    instruction = _INSTRUCTION.format(schema=json.dumps(form.schema, ensure_ascii=False))
    system, messages = append_to_system(context.system, list(context.messages), instruction)
    return replace(request, context=replace(context, system=system, messages=messages), output=None)


def _choice(request: Request) -> ToolChoice:
    """Require the answer's tool, or any tool if the caller has tools. A choice that the caller requires stays."""
    choice = request.tool_choice or ToolChoice("auto")
    if not request.tools or choice.mode == "none":
        return ToolChoice("required", [ANSWER])
    if choice.mode == "required":
        return choice
    return ToolChoice("required", None if choice.names is None else [*choice.names, ANSWER])


class ParsedValue(Struct, frozen=True):
    """The value of an answer."""

    value: Any


class AnswerProblems(Struct, frozen=True):
    """Why an answer has no value: each problem with its path, and the text of the answer.

    - `unfinished`: calls have to run first, or the model paused.
    - `refused` and `cut_off`: a retry would have the same outcome.
    - All others can be corrected by the model.
    """

    kind: Literal["refused", "cut_off", "unfinished", "empty", "no_json", "invalid"]
    problems: tuple[str, ...]
    text: str = ""

    @property
    def correctable(self) -> bool:
        """True if the model may correct the answer."""
        return self.kind in _CORRECTABLE


def parse_answer(response: Response, form: OutputForm, method: OutputMethod) -> ParsedValue | AnswerProblems:
    """Return the value of an answer, or its problems."""
    calls = [part for part in response.parts if type(part) is ToolCall]
    answers = [call for call in calls if call.name == ANSWER]
    text = answers[0].raw or "" if answers else response.message.text
    unreadable = _unreadable(response, others=len(calls) > len(answers))
    if unreadable is not None:
        return AnswerProblems(*unreadable, text)
    if len(answers) > 1:
        return AnswerProblems("invalid", (f"{len(answers)} answers came, where one was expected",), text)
    if answers:
        answer, problem = answers[0].plain_arguments, None if answers[0].runs else answers[0].error or "cut off"
    elif not text.strip():
        return AnswerProblems("empty", ("the answer says nothing",), text)
    else:
        answer, problem = _object_in(text, method)
    if problem is not None:
        return AnswerProblems("no_json", (shorten(problem),), text)
    return _validate_value(answer, form, method, text)


def _unreadable(response: Response, *, others: bool) -> tuple[Any, tuple[str, ...]] | None:
    """Return the kind of problem and its text if the answer must not be parsed, else None."""
    reason = response.finish_reason
    refusals = [part.text for part in response.parts if type(part) is Refusal]
    if refusals or reason in _REFUSED:
        return "refused", (shorten("; ".join(filter(None, refusals)) or f"it ended with {reason}"),)
    if reason in CUT:
        return "cut_off", (f"the answer was cut off before it was whole ({reason})",)
    if others:
        return "unfinished", ("there are calls to run before the answer",)
    return ("unfinished", ("the model paused",)) if reason == "pause" else None


def _validate_value(
    answer: dict[str, Any], form: OutputForm, method: OutputMethod, text: str
) -> ParsedValue | AnswerProblems:
    if method.strict:
        answer = prune_nulls(answer, form.schema)
    problems = form.problems(answer)
    if not problems:
        try:
            return ParsedValue(form.value(answer))
        except InvalidField as problem:
            problems = [f"field {problem.field}: {problem.reason}"]
    return AnswerProblems("invalid", tuple(map(shorten, problems)), text)


def shorten(text: str) -> str:
    """Return `text`, cut to the length that a problem may have."""
    return text if len(text) <= _MAX_PROBLEM else f"{text[:_MAX_PROBLEM]}..."


def _object_in(text: str, method: OutputMethod) -> tuple[dict[str, Any], str | None]:
    """Return the JSON object that a text is, or that its only block holds; skip thinking before it."""
    thought = _THOUGHT.match(text)
    text_left = text[thought.end() :] if thought is not None else text
    if not text_left.lstrip().startswith("{"):
        blocks = _blocks(text_left)
        if not blocks:
            return {}, _NOT_CALLED_TEXT if method.kind == "tool" else "the answer is not a JSON object"
        if len(blocks) > 1:
            return {}, f"{len(blocks)} blocks of code came, where one JSON object was expected"
        text_left = blocks[0]
    answer, problem = parse_arguments(text_left)
    if problem is None and not text_left.lstrip().startswith("{"):
        problem = "the block is not a JSON object"
    return answer, problem


def _blocks(text: str) -> list[str]:
    """Return the contents of the complete fenced blocks of a text."""
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


def correction_text(problems: AnswerProblems) -> str:
    """Return the message that asks the model to correct its answer."""
    listed = "\n".join(f"- {problem}" for problem in problems.problems)
    return f"The answer cannot be used:\n{listed}\n\n{_RETRY_TEXT}"


def is_answer(part: Any) -> TypeGuard[ToolCall]:
    """Return True if a part is a call of the answer's tool, which users never see."""
    return type(part) is ToolCall and part.name == ANSWER


def answer_as_text(response: Response) -> Response:
    """Return the response with its answer as text, also if it came as a call."""
    if not response.choices or not any(map(is_answer, response.parts)):
        return response
    first, *others = response.choices
    reason = "stop" if first.finish_reason == "tool_calls" else first.finish_reason
    first = replace(first, message=_call_as_text(first.message), finish_reason=reason)
    return replace(response, choices=[first, *others])


def history_without_answer_tool(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with calls of the answer's tool, and their results, as text.

    A call beside others was rejected, and is removed with its result: a user message cannot stand between other
    results.
    """
    kept: list[Message] = []
    is_alone = True
    for message in messages:
        if any(map(is_answer, message.parts)):
            is_alone = all(is_answer(part) for part in message.parts if type(part) is ToolCall)
            message = _call_as_text(message) if is_alone else _without_answer_tool(message)  # noqa: PLW2901 - it is what is kept
        elif any(map(_is_answer_result, message.parts)):
            message = _rejection_as_text(message) if is_alone else _without_answer_tool(message)  # noqa: PLW2901 - it is what is kept
        if message.content != []:
            kept.append(message)
    return kept


def _is_answer_result(part: Any) -> TypeGuard[ToolResult]:
    return type(part) is ToolResult and part.name == ANSWER


def _rejection_as_text(message: Message) -> Message:
    """Return the rejections of answers as a user message."""
    return Message("user", "\n".join(str(part.content) for part in message.parts if _is_answer_result(part)))


def _call_as_text(message: Message) -> Message:
    """Return an answer as the JSON of its call. Text beside the call is not part of the answer."""
    called = any(map(is_answer, message.parts))
    parts = [part for part in message.parts if not (called and type(part) is Text)]
    return replace(message, content=[Text(argument_text(part)) if is_answer(part) else part for part in parts])


def _without_answer_tool(message: Message) -> Message:
    """Return a message without calls of the answer's tool and their results. Its opaque values no longer apply."""
    parts = [part for part in message.parts if not (is_answer(part) or _is_answer_result(part))]
    return replace(message, content=parts, opaque=None)


class OutputPlan(Struct, frozen=True):
    """The form of a run's answer, and the method of requesting it."""

    form: OutputForm
    method: OutputMethod

    @classmethod
    def of(cls, output: Any, provider: Provider, request: Request) -> Self:
        """Return the plan for an answer of this type or schema."""
        form = OutputForm.of(output)
        return cls(form, choose_method(provider, form, request))

    def prepare_request(self, request: Request) -> Request:
        """Return the request with the output request added."""
        return prepare(request, self.form, self.method)

    def correction(self, response: Response) -> str | None:
        """Return what the model has to correct in its answer; None if nothing, or if a correction is not possible."""
        match parse_answer(response, self.form, self.method):
            case AnswerProblems(kind="unfinished") if any(map(is_answer, response.parts)):
                return TOO_EARLY
            case AnswerProblems(correctable=True) as problems:
                return correction_text(problems)
        return None

    def finish(self, done: Done) -> Done:
        """Return the end with its value, and without the answer's tool."""
        messages = history_without_answer_tool(done.messages)
        response = None if done.response is None else answer_as_text(done.response)
        calls = [call for call in done.calls if call.name != ANSWER]
        done = replace(done, messages=messages, calls=calls, response=response)
        if done.ending not in _ANSWERED or response is None:
            return done
        match parse_answer(response, self.form, self.method):
            case ParsedValue(value):
                return replace(done, ending="answer", output=value)
            case problems:
                return replace(done, ending="error", reason="; ".join(problems.problems))

    def value(self, done: Done) -> Any:
        """Return the value of an ended run. Raise NoStructuredOutput if it has none."""
        if done.ending == "answer":
            return done.output
        response = done.response or Response()
        answer = parse_answer(response, self.form, self.method)
        if isinstance(answer, AnswerProblems):
            raise NoStructuredOutput(answer.kind, answer.problems, answer.text, done.response)
        raise NoStructuredOutput(done.ending, (done.reason,), response.message.text, done.response)
