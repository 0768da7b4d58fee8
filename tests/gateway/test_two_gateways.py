"""What two gateways on one database share: nothing that was added is lost, and nothing that was deleted comes back."""

import contextlib
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.gateway.pairs import Client, Pair, message, pair, words_of
from tests.traces.postgres import Postgres

DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
LATE = 1.0  # seconds after which each gateway shows what the other one has changed


@pytest.fixture(scope="module", params=DATABASES)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give two gateways, for all tests of this file that leave them alive."""
    with pair(tmp_path_factory.mktemp("two"), _database(request)) as gateways:
        yield gateways


@pytest.fixture
def client(two: Pair) -> Client:
    return Client(two, two.key(f"k{random.getrandbits(64):x}"))


def _database(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///toolwire.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.create().url


def test_a_turn_on_the_one_goes_on_from_a_turn_on_the_other(client: Client) -> None:
    made = client.ask(0, "POST", "/v1/conversations", {"items": [message("zero")]})["id"]
    for at in range(6):
        client.texts(at + 1, made)  # what was read a moment ago is not believed
        told = client.respond(at, f"turn-{at}", conversation=made, store=False)
        assert words_of(told).split() == ["zero", *(f"turn-{number}" for number in range(at + 1))]
    for at in range(2):
        turns = [text for text in client.texts(at, made) if text.startswith("turn-")]
        assert turns == [f"turn-{number}" for number in range(6)]


def test_additions_at_once_are_all_kept_in_one_order(client: Client) -> None:
    made = client.ask(0, "POST", "/v1/conversations", {})["id"]

    def add(number: int) -> list[str]:
        items = [message(f"{number}-{part}") for part in range(2)]
        added = client.ask(number, "POST", f"/v1/conversations/{made}/items", {"items": items})
        return [item["id"] for item in added["data"]]

    with ThreadPoolExecutor(20) as pool:
        names = list(pool.map(add, range(40)))
    one, other = (client.texts(at, made) for at in range(2))
    assert one == other
    assert sorted(one) == sorted(f"{number}-{part}" for number in range(40) for part in range(2))
    assert [int(text.partition("-")[0]) for text in one[::2]] == [int(text.partition("-")[0]) for text in one[1::2]]
    assert len({name for pair_of in names for name in pair_of}) == 80


def test_turns_and_items_at_once_are_all_kept(client: Client) -> None:
    made = client.ask(0, "POST", "/v1/conversations", {})["id"]
    with ThreadPoolExecutor(8) as pool:
        for at in range(8):
            pool.submit(client.respond, at, f"turn-{at}", conversation=made)
            pool.submit(client.ask, at, "POST", f"/v1/conversations/{made}/items", {"items": [message(f"item-{at}")]})
    for at in range(2):
        texts = client.texts(at, made)
        assert {f"turn-{number}" for number in range(8)} | {f"item-{number}" for number in range(8)} <= set(texts)
        assert len(texts) == 24


@pytest.mark.parametrize("deleted_on", [0, 1])
def test_a_conversation_that_was_deleted_stays_deleted_on_both(client: Client, deleted_on: int) -> None:
    made = client.ask(0, "POST", "/v1/conversations", {"items": [message("zero")]})["id"]
    path = f"/v1/conversations/{made}"
    for at in range(2):
        assert client.texts(at, made) == ["zero"]
    client.ask(deleted_on, "DELETE", path)
    time.sleep(LATE)
    for at in (0, 1, 0, 1):
        asked: list[tuple[str, str, Any]] = [
            ("POST", f"{path}/items", {"items": [message("again")]}),
            ("POST", path, {"metadata": {"a": "b"}}),
            ("POST", "/v1/responses", {"model": "anthropic/m", "input": "x", "conversation": made}),
            ("GET", path, None),
            ("GET", f"{path}/items", None),
            ("DELETE", path, None),
        ]
        assert [client.send(at, *one).status for one in asked] == [404] * 6


def test_a_turn_that_ends_after_its_conversation_was_deleted_does_not_bring_it_back(client: Client) -> None:
    for at in range(6):
        made = client.ask(at, "POST", "/v1/conversations", {})["id"]
        with ThreadPoolExecutor(2) as pool:
            pool.submit(client.send, at, "POST", f"/v1/conversations/{made}/items", {"items": [message("x")]})
            pool.submit(client.ask, at + 1, "DELETE", f"/v1/conversations/{made}")
        for late in range(2):
            assert client.send(late, "GET", f"/v1/conversations/{made}").status == 404


def test_an_item_that_was_deleted_stays_deleted_on_both(client: Client) -> None:
    made = client.ask(0, "POST", "/v1/conversations", {"items": [message("a"), message("b"), message("c")]})["id"]
    page = client.ask(1, "GET", f"/v1/conversations/{made}/items?order=asc")
    path = f"/v1/conversations/{made}/items/{page['data'][1]['id']}"
    client.ask(1, "GET", path)
    client.ask(0, "DELETE", path)
    client.ask(1, "POST", f"/v1/conversations/{made}/items", {"items": [message("d")]})
    for at in range(2):
        assert client.texts(at, made) == ["a", "c", "d"]
        assert client.send(at, "GET", path).status == client.send(at, "DELETE", path).status == 404


def test_an_answer_that_was_deleted_is_gone_on_both_also_to_go_on_from(client: Client) -> None:
    first = client.respond(0, "one")["id"]
    second = client.respond(1, "two", previous_response_id=first)
    assert words_of(second) == "one two"
    third = client.respond(0, "three", previous_response_id=second["id"])
    assert words_of(third) == "one two three"
    client.ask(1, "DELETE", f"/v1/responses/{second['id']}")
    time.sleep(LATE)
    for at in range(2):
        for name in (second["id"], third["id"]):
            asked = {"model": "anthropic/m", "input": "x", "previous_response_id": name}
            refused = client.send(at, "POST", "/v1/responses", asked)
            assert (refused.status, json.loads(refused.data)["error"]["code"]) == (400, "previous_response_not_found")
        assert client.send(at, "GET", f"/v1/responses/{second['id']}").status == 404
        assert client.send(at, "DELETE", f"/v1/responses/{second['id']}").status == 404
        assert words_of(client.respond(at, "x", previous_response_id=first)) == "one x"


class Register:
    """What was added to conversations and deleted of them, when, and what reading them has to show."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.added: dict[str, dict[str, tuple[float, float]]] = {}  # words: when their addition began and ended
        self.deleted: dict[str, dict[str, tuple[float, float]]] = {}
        self.gone: dict[str, tuple[float, float]] = {}
        self.problems: list[str] = []

    def live(self, chance: random.Random) -> str | None:
        """Choose a conversation that nobody has deleted."""
        with self._lock:
            names = [name for name in self.added if name not in self.gone]
        return chance.choice(names) if names else None

    def begin(self, of: dict[Any, tuple[float, float]], name: str) -> float:
        """Note that a change begins; until it ends it may be seen or not."""
        began = time.monotonic()
        with self._lock:
            of[name] = began, float("inf")
        return began

    def end(self, of: dict[Any, tuple[float, float]], name: str, began: float) -> None:
        """Note that a change was acknowledged."""
        with self._lock:
            of[name] = began, time.monotonic()

    def check(self, name: str, began: float, ended: float, seen: list[str] | None) -> None:
        """Compare what a reading showed with what it had to show, and what it might show."""
        with self._lock:
            gone = self.gone.get(name, (float("inf"), float("inf")))
            added, deleted = dict(self.added[name]), dict(self.deleted[name])
        problem = ""
        if seen is None:
            problem = "" if gone[0] < ended else "is not there"
        elif gone[1] + LATE < began:
            problem = "came back"
        else:
            there = {word for word, (_, known) in added.items() if known + LATE < began and word not in deleted}
            away = {word for word, (_, known) in deleted.items() if known + LATE < began}
            lost, back, twice = there - set(seen), away & set(seen), len(seen) - len(set(seen))
            problem = f"lost {lost}, came back {back}, twice {twice}" if lost or back or twice else ""
            problem = problem or self._out_of_order(added, seen)
        if problem:
            self.problems.append(f"{name}: {problem}")

    def _out_of_order(self, added: dict[str, tuple[float, float]], seen: list[str]) -> str:
        """Say which addition that began after another one had ended stands before that."""
        first_end = float("inf")  # of what stands after a word
        for word in reversed(seen):
            began, ended = added[word]
            if first_end < began:
                return f"{word} stands before what was added before it"
            first_end = min(first_end, ended)
        return ""


class Players:
    """Clients that change conversations and answers on either gateway, and read them on either."""

    def __init__(self, client: Client, register: Register, killed: threading.Event | None = None) -> None:
        self.client, self.register = client, register
        self._killed = killed or threading.Event()
        self.until = 0.0
        self.count = 0

    @property
    def alive(self) -> list[int]:
        """Which gateways can be asked."""
        return [1] if self.may_fail() else [0, 1]

    def may_fail(self) -> bool:
        """Whether a request may be without an answer: its gateway was killed."""
        return self._killed.is_set()

    def play(self, seconds: float, writers: int = 4, readers: int = 2) -> None:
        """Have all play for a while, and read all once more at its end."""
        self.until = time.monotonic() + seconds
        with ThreadPoolExecutor(writers + readers) as pool:
            seeds = range(writers + readers)
            played = [pool.submit(self._write if seed < writers else self._read, seed) for seed in seeds]
        for one in played:
            one.result()
        time.sleep(LATE)
        for at in self.alive:
            for name in list(self.register.added):
                self._look(at, name)

    def _write(self, seed: int) -> None:
        chance, last = random.Random(seed), ""  # noqa: S311 - a game
        while time.monotonic() < self.until:
            at, name = chance.choice(self.alive), self.register.live(chance)
            with self._forgiving():
                if name is None or chance.random() < 0.08:
                    self._make(at)
                elif chance.random() < 0.08:
                    self._delete(at, name)
                elif chance.random() < 0.2:
                    self._delete_item(at, name, chance)
                elif chance.random() < 0.25:
                    last = self._respond(at, last)
                else:
                    self._add(at, name, turn=chance.random() < 0.3)

    def _read(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - likewise
        while time.monotonic() < self.until:
            names = list(self.register.added)
            with self._forgiving():
                if names:
                    self._look(chance.choice(self.alive), chance.choice(names))

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Take what a gateway that was killed has not answered; whether it is done nobody knows."""
        try:
            yield
        except (OSError, AssertionError):
            if not self.may_fail():
                raise

    def _next(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}-{random.getrandbits(32):x}"

    def _make(self, at: int) -> None:
        name = self.client.ask(at, "POST", "/v1/conversations", {})["id"]
        self.register.deleted[name] = {}
        self.register.added[name] = {}

    def _add(self, at: int, name: str, *, turn: bool) -> None:
        word, added = self._next("w"), self.register.added[name]
        began = self.register.begin(added, word)
        if turn:
            body = {"model": "anthropic/m", "input": word, "conversation": name, "store": False}
            answered = self.client.send(at, "POST", "/v1/responses", body)
        else:
            answered = self.client.send(at, "POST", f"/v1/conversations/{name}/items", {"items": [message(word)]})
        self._acknowledge(0 if answered.broken else answered.status, name, added, word, began)

    def _acknowledge(self, status: int, name: str, of: dict[str, tuple[float, float]], word: str, began: float) -> None:
        if status == 200:
            self.register.end(of, word, began)
        elif status != 404 or name not in self.register.gone:
            assert self.may_fail(), (status, name, word)

    def _delete(self, at: int, name: str) -> None:
        began = self.register.begin(self.register.gone, name)
        status = self.client.send(at, "DELETE", f"/v1/conversations/{name}").status
        if status in (200, 404):  # 404: somebody else has deleted it
            self.register.end(self.register.gone, name, began)

    def _delete_item(self, at: int, name: str, chance: random.Random) -> None:
        page = self.client.send(at, "GET", f"/v1/conversations/{name}/items?limit=100")
        if page.status != 200:
            assert name in self.register.gone or self.may_fail(), page
            return
        users = [item for item in json.loads(page.data)["data"] if item["role"] == "user"]
        if users:
            item = chance.choice(users)
            word, deleted = item["content"][0]["text"], self.register.deleted[name]
            began = self.register.begin(deleted, word) if word not in deleted else deleted[word][0]
            status = self.client.send(at, "DELETE", f"/v1/conversations/{name}/items/{item['id']}").status
            self._acknowledge(200 if status == 404 else status, name, deleted, word, began)

    def _respond(self, at: int, last: str) -> str:
        """Go on from an answer on the other gateway, which has to have it, and delete that."""
        word = self._next("r")
        more = {"previous_response_id": last} if last else {}
        answer = self.client.respond(at, word, **more)
        assert words_of(answer).split()[-1] == word
        assert len(words_of(answer).split()) == 1 or last, answer
        if last:
            chain, other = [answer["id"], last], self.alive[(at + 1) % len(self.alive)]
            assert [self.client.send(other, "GET", f"/v1/responses/{one}").status for one in chain] == [200, 200]
            self.client.ask(other, "DELETE", f"/v1/responses/{last}")
            asked = {"model": "anthropic/m", "input": "x", "previous_response_id": last}
            assert self.client.send(at, "GET", f"/v1/responses/{last}").status == 404
            assert self.client.send(at, "POST", "/v1/responses", asked).status == 400
            return ""
        return str(answer["id"])

    def _look(self, at: int, name: str) -> None:
        began = time.monotonic()
        try:
            seen: list[str] | None = self.client.texts(at, name, users=True)
        except AssertionError as problem:
            if "status=404" not in str(problem):
                raise
            seen = None
        self.register.check(name, began, time.monotonic(), seen)


def test_what_is_written_on_either_is_read_on_either(client: Client) -> None:
    """A short game in each run, a minute of it where TOOLWIRE_TORTURE=full is set."""
    register = Register()
    Players(client, register).play(60.0 if FULL else 1.0)
    assert register.problems == []
    assert sum(map(len, register.added.values())) > 5


@pytest.mark.slow
@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("database", DATABASES)
def test_nothing_is_lost_while_one_of_them_is(
    what: signal.Signals, database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One is killed, or stopped for three seconds, in the middle of what it does, while the other goes on."""
    request.param = database
    with pair(tmp_path, _database(request)) as gateways:
        one = gateways.processes[0]
        register, hit = Register(), threading.Event()
        players = Players(Client(gateways, gateways.key("k")), register, hit)

        def strike() -> None:
            time.sleep(1.5)
            if what is signal.SIGKILL:
                hit.set()
            one.send_signal(what)
            if what is signal.SIGSTOP:
                time.sleep(3)
                one.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=strike)
        thread.start()
        players.play(6.0)
        thread.join()
        assert register.problems == []
        assert sum(map(len, register.added.values())) > 20
