"""The value of a run, of a stream and of a round, each with its type."""

from dataclasses import dataclass
from typing import Any

from toolwire import Client, Done, Stream


@dataclass
class Point:
    x: int
    y: int


schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def of_a_run(client: Client) -> int:
    done = client.run("Where?", output=Point)
    return done.output.x + done.turns


def of_a_stream(client: Client) -> Point:
    stream: Stream[Point] = client.stream("Where?", output=Point)
    for _ in stream:
        pass
    return stream.collect().output


def of_generate(client: Client) -> int:
    return client.generate("Where?", output=Point).y


def of_a_schema(client: Client) -> Any:
    return client.run("Where?", output=schema).output


def show(done: Done) -> str:
    return f"{done.ending} {done.output}"


def shown(client: Client) -> list[str]:
    return [show(client.run("Where?")), show(client.run("Where?", output=Point)), show(client.generate("Where?"))]
