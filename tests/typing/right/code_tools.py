"""An agent in a project folder."""

from pathlib import Path

from toolwire import AgentResolver, CodeTools, Limits, LoopLimits, Plan, Step, ToolCall, generate


def run_tests(path: str = ".") -> str:
    """Run the tests."""
    return path


def explore(arguments: dict[str, object]) -> Plan:
    steps = [Step("glob", {"pattern": "*.py"}), Step("grep", {"pattern": "import os"}, "to do")]
    return Plan(parallel=steps, serial=[Step("read_file", {"path": str(arguments.get("path", "README.md"))})])


def agent(folder: Path, prompt: str) -> str | None:
    tools = [CodeTools(folder), AgentResolver([run_tests], recipes={"run_tests": explore})]
    done = generate(
        prompt,
        model="anthropic/claude-sonnet-5-5",
        tools=tools,
        running=Limits(timeout=60, output=20_000),
        limits=LoopLimits(turns=50, seconds=600),
        auto_tools=True,
        terminal_tool="finish",
        thinking="adaptive",
    )
    return done.content


def one(folder: Path) -> bool:
    return CodeTools(folder).resolve(ToolCall("1", "read_file", {"path": "README.md"})).is_error
