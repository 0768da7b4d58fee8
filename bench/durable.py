"""A peer's durable conversation, for `bench/runs.py`: pydantic-ai on DBOS, in the environment of the peers.

The same conversation: each turn a question, which a function answers at once, and a call of a tool. The peer makes a
step of the question; the tool is made one as its documents say. It prints the milliseconds of a step.
"""

import asyncio
import sys
import time

from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits


def led(url: str, number: int, size: int) -> float:
    """Lead a conversation of many turns; give the milliseconds of a step."""
    DBOS(config={"name": "peer", "system_database_url": url, "log_level": "CRITICAL"})

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn >= turns[0]:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("quote", {"number": turn}, tool_call_id=f"call_{turn}")])

    turns = [1]
    agent = Agent(FunctionModel(say), name="peer", capabilities=[DBOSDurability()])

    @agent.tool_plain
    @DBOS.step()
    def quote(number: int) -> str:
        """Give a text of a few kilobytes."""
        return f"{number} " + "lorem ipsum dolor sit " * (size // 22)

    @DBOS.workflow()
    async def lead() -> str:
        return (await agent.run("Quote.", usage_limits=UsageLimits(request_limit=None))).output

    async def main() -> float:
        await lead()
        turns[0] = number
        begun = time.perf_counter()
        assert await lead() == "done"
        return time.perf_counter() - begun

    DBOS.launch()
    seconds = asyncio.run(main())
    DBOS.destroy()
    return 1000 * seconds / (2 * number)


if __name__ == "__main__":
    print(led(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
