"""A limit of calls that is none."""

from toolwire import ToolCall, execute


def answer(call: ToolCall) -> str:
    return call.name


execute([], answer, timeot=5)  # error: call-arg, reportCallIssue
