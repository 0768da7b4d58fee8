"""A gateway: clients of Anthropic's wire, answered by a model of OpenAI.

Run `uvicorn --app-dir examples gateway:app`, with `OPENAI_API_KEY` set.
"""

from starlette import applications, requests, responses, routing

from toolwire import ProviderError, aio, dialect

wire, client = dialect("anthropic"), aio.Client("openai", "gpt-6-sol")


async def messages(http: requests.Request) -> responses.Response:  # noqa: D103
    try:
        request = wire.decode_request(await http.json())
        if not request.stream:
            return responses.JSONResponse(wire.encode_response(await client.send(request)).body)
        events, encoder = await client.send_stream(request).begin(), wire.encode_stream()
        frames = (encoder.feed(event) async for event in events)
        return responses.StreamingResponse(frames, media_type="text/event-stream")
    except ProviderError as problem:
        reply = wire.encode_error(problem.error)
        return responses.JSONResponse(reply.body, reply.status, reply.headers)


app = applications.Starlette(routes=[routing.Route("/v1/messages", messages, methods=["POST"])])
