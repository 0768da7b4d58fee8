"""The loop without I/O: each step is a value."""

from toolwire import Context, Done, LoopLimits, Request, Response, ToolCall, ToolResult, tool_loop
from toolwire.loop import AskModel, RunTools


def ask(request: Request) -> Response:
    return Response(model=request.model)


def run(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, "done")


def lead(prompt: str) -> Done:
    loop = tool_loop(Request(context=Context(messages=[prompt]), model="m"), limits=LoopLimits(turns=3))
    step = next(loop)
    while True:
        match step:
            case Done():
                return step
            case AskModel(request=request):
                step = loop.send(ask(request))
            case RunTools(calls=calls):
                step = loop.send([run(call) for call in calls])
