"""A gateway: clients of Anthropic's wire, answered by a model of OpenAI.

Run `uvicorn --app-dir examples gateway:app`, with `OPENAI_API_KEY` set.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolwire import ProviderError, aio, dialect

wire, client = dialect("anthropic"), aio.Client("openai", "gpt-6-sol")


async def messages(http: Request) -> Response:  # noqa: D103
    try:
        asked = wire.decode_request(await http.json())
        if not asked.stream:
            return JSONResponse(wire.encode_response(await client.send(asked)).body)
        events, encoder = await client.send_stream(asked).begin(), wire.encode_stream()
        return StreamingResponse((encoder.feed(event) async for event in events), media_type="text/event-stream")
    except ProviderError as problem:
        reply = wire.encode_error(problem.error)
        return JSONResponse(reply.body, reply.status, reply.headers)


app = Starlette(routes=[Route("/v1/messages", messages, methods=["POST"])])
