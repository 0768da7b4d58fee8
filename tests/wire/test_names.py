"""Names and ids in the grammar of each target: legal there, read back to what they were, never two alike."""

import re
import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from toolwire.dialects import dialect
from toolwire.dialects.anthropic import parts as anthropic
from toolwire.dialects.gemini import parts as gemini
from toolwire.dialects.openai_chat import parts as openai_chat
from toolwire.dialects.openai_responses import parts as openai_responses
from toolwire.errors import InvalidField
from toolwire.wire.names import (
    WORD_CHARS,
    Grammar,
    Ids,
    Names,
    escape,
    fingerprint,
    generate_call_id,
    is_generated_id,
    number_of,
    read_grammar,
    restore,
    shorten,
)

MISTRAL = Grammar("A-Za-z0-9", 9, least=9)
GRAMMARS: dict[str, tuple[Grammar | None, str]] = {
    "chat names": (openai_chat.WIRE.names, r"[a-zA-Z0-9_-]{1,64}"),
    "chat ids": (openai_chat.WIRE.ids, r"[!-~]{1,40}"),
    "responses names": (openai_responses.WIRE.names, r"[a-zA-Z0-9_-]{1,128}"),
    "responses ids": (openai_responses.WIRE.ids, r"[!-~]{1,64}"),
    "messages names": (anthropic.WIRE.names, r"[a-zA-Z0-9_-]{1,128}"),
    "messages ids": (anthropic.WIRE.ids, r"[a-zA-Z0-9_-]{1,256}"),
    "gemini names": (gemini.WIRE.names, r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"),
    "mistral ids": (MISTRAL, r"[a-zA-Z0-9]{9}"),
}
REVERSIBLE = [name for name in GRAMMARS if name != "mistral ids"]
ANY = (
    st.text(max_size=80)
    | st.text(string.ascii_letters + "_-.:/ ", max_size=90)
    | st.from_regex(r"[a-z/]{0,3}__tw([0-9]{1,3}-[0-9a-f]{1,4})?(_[0-9]-2f)?(__tw)?", fullmatch=True)
)


def grammar_of(name: str) -> Grammar:
    grammar = GRAMMARS[name][0]
    assert grammar is not None
    return grammar


@pytest.mark.parametrize("kind", GRAMMARS)
@given(name=ANY)
@example(name="")
@example(name="_" * 300)
@example(name="1" + "2" * 300)
@example(name="a\n")
@example(name="a__tw")
@example(name="\ud800")
def test_every_name_is_written_in_the_grammar(kind: str, name: str) -> None:
    grammar, pattern = grammar_of(kind), GRAMMARS[kind][1]
    written = escape(name, grammar)
    assert re.fullmatch(pattern, written, re.ASCII)
    assert written == escape(name, grammar)
    if re.fullmatch(pattern, name, re.ASCII) and "__tw" not in name:
        assert written == name


@pytest.mark.parametrize("kind", REVERSIBLE)
@given(name=ANY)
def test_what_was_escaped_is_read_back(kind: str, name: str) -> None:
    grammar = grammar_of(kind)
    written = escape(name, grammar)
    assume(not was_cut(written, name, grammar))
    assert restore(written, grammar) == name


def was_cut(written: str, name: str, grammar: Grammar) -> bool:
    """Whether a name had no room for its suffix, so that only the sender knows it."""
    return written == shorten(name, grammar)


@pytest.mark.parametrize("kind", REVERSIBLE)
@given(written=ANY)
def test_what_was_not_escaped_is_a_name_of_its_own(kind: str, written: str) -> None:
    grammar = grammar_of(kind)
    name = restore(written, grammar)
    assert name == written or escape(name, grammar) == written


@pytest.mark.parametrize("kind", REVERSIBLE)
@given(names=st.lists(ANY, min_size=2, max_size=8, unique=True))
def test_distinct_names_stay_distinct(kind: str, names: list[str]) -> None:
    grammar = grammar_of(kind)
    assert len({escape(name, grammar) for name in names}) == len(names)


ESCAPED = {
    "srv/list": "srv_list__tw3-2f",
    "srv/list.items": "srv_list_items__tw3-2f_8-2e",
    "a b": "a_b__tw1-20",
    "a.b": "a_b__tw1-2e",
    "a:b": "a_b__tw1-3a",
    "wetter_ü": "wetter____tw7-fc",
    "a__tw1-2f": "a__tw1-2f__tw",
    "a__tw": "a__tw__tw",
    "get_weather": "get_weather",
    "get-weather": "get-weather",
    "__two__": "__two__",
    "1": "1",
}


@pytest.mark.parametrize(("name", "written"), ESCAPED.items())
def test_how_a_name_is_escaped(name: str, written: str) -> None:
    grammar = Grammar(WORD_CHARS, 64)
    assert (escape(name, grammar), restore(written, grammar)) == (written, name)


NOT_ESCAPED = [
    "a__tw9-2f",
    "a__tw0-2g",
    "a__tw0-62",
    "a__tw00-2f",
    "a__tw1-2f_0-2f",
    "a__tw0-110000",
    "__tw",
    "a__tw" + "9" * 5000 + "-2f",
    "a__tw0-" + "f" * 5000,
]


@pytest.mark.parametrize("written", NOT_ESCAPED, ids=[name[:20] for name in NOT_ESCAPED])
def test_what_nobody_escaped_is_left_alone(written: str) -> None:
    assert restore(written, Grammar(WORD_CHARS, 64)) == written


def test_a_name_without_a_grammar_is_left_alone() -> None:
    assert restore("srv_list__tw3-2f", None) == "srv_list__tw3-2f"
    assert Names(None).write("srv/list") == "srv/list"
    assert Ids(None).call("a:b c") == "a:b c"


def test_long_names_are_cut_and_kept_apart() -> None:
    grammar = Grammar(WORD_CHARS, 64)
    one, two = escape("x" * 64 + "1", grammar), escape("x" * 64 + "2", grammar)
    assert (len(one), len(two), one[:55], two[:55]) == (64, 64, "x" * 55, "x" * 55)
    assert one != two
    assert escape("x" * 64, grammar) == "x" * 64


TAKEN = [
    (MISTRAL, "abcDEF123", True),
    (MISTRAL, "abcDEF12", False),
    (MISTRAL, "abcDEF1234", False),
    (MISTRAL, "call_abcd", False),
    (Grammar("A-Za-z0-9", 9), "abc", True),
    (Grammar("A-Za-z0-9", 9), "call_1", False),
    (Grammar(WORD_CHARS, 6), "call_1", True),
    (Grammar(WORD_CHARS, 5), "call_1", False),
    (Grammar(WORD_CHARS, 6), "é", False),
    (Grammar(WORD_CHARS, 6), "a\n", False),
    (Grammar(WORD_CHARS, 6), "", False),
    (Grammar("a-z.", 6, first="a-z"), ".a", False),
    (Grammar("a-z.", 6, first="a-z"), "a.", True),
]


@pytest.mark.parametrize(("grammar", "name", "taken"), TAKEN)
def test_what_a_grammar_takes(grammar: Grammar, name: str, taken: bool) -> None:
    assert grammar.accepts(name) is taken


def test_the_names_of_a_request() -> None:
    names = Names(Grammar(WORD_CHARS, 64))
    assert names.keep("srv.list") == "srv.list"
    assert names.write("srv.list") == "srv.list"
    assert names.write("srv/list") == "srv_list__tw3-2f"
    assert names.write("srv/list") == "srv_list__tw3-2f"
    assert names.choose("srv/list", is_native=True) == "srv_list__tw3-2f"
    assert names.choose("srv:list", is_native=True) == "srv:list"
    assert names.choose("srv:list", is_native=False) == "srv_list__tw3-3a"


def test_a_name_that_is_taken_is_written_otherwise() -> None:
    names = Names(Grammar(WORD_CHARS, 64))
    names.keep("srv_list__tw3-2f")
    written = names.write("srv/list")
    assert re.fullmatch(r"srv_list_[0-9a-f]{8}", written)
    assert names.write("srv/list") == written


def test_the_ids_of_a_conversation() -> None:
    ids = Ids(Grammar(WORD_CHARS, 64, distinct=True))
    assert ids.call("call_1") == "call_1"
    assert ids.call("a.b") == "a_b__tw1-2e"
    assert ids.result("a.b") == "a_b__tw1-2e"
    assert ids.result("call_1") == "call_1"
    again = ids.call("call_1")
    assert re.fullmatch(r"call_1_[0-9a-f]{8}", again)
    assert ids.result("call_1") == again
    assert ids.result("call_1") == "call_1"
    assert ids.result("c.d") == "c_d__tw1-2e"
    assert ids.result("c.d", is_native=True) == "c.d"
    assert ids.result(None) is None


def test_ids_given_twice_in_one_turn_are_answered_in_order() -> None:
    ids = Ids(Grammar(WORD_CHARS, 64, distinct=True))
    written = [ids.call("same") for _ in range(3)]
    assert len(set(written)) == 3
    assert [ids.result("same") for _ in range(3)] == written


def test_ids_may_be_given_twice_where_a_target_allows_it() -> None:
    ids = Ids(Grammar("!-~", 40))
    assert [ids.call("same"), ids.call("same"), ids.result("same"), ids.result("same")] == ["same"] * 4


def test_ids_that_were_read_stay_as_they_are() -> None:
    ids = Ids(MISTRAL)
    assert (ids.call("call_1", is_native=True), ids.result("call_1")) == ("call_1", "call_1")
    every = Ids(MISTRAL, rewrites_all=True)
    written = every.call("call_1", is_native=True)
    assert re.fullmatch("[A-Za-z0-9]{9}", written)
    assert every.result("call_1", is_native=True) == written
    assert re.fullmatch("[A-Za-z0-9]{9}", every.result("call_2", is_native=True) or "")


def test_ids_in_the_grammar_of_mistral() -> None:
    ids = Ids(MISTRAL)
    given_ids = ["call_1", "toolu_01XYZ789", "abcDEF123", "functions.Bash:0", "", "x"]
    written = [ids.call(call_id) for call_id in given_ids]
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in written)
    assert written[2] == "abcDEF123"
    assert len(set(written)) == len(written)
    assert [ids.result(call_id) for call_id in given_ids] == written
    assert [Ids(MISTRAL).call(call_id) for call_id in given_ids] == written


def test_a_call_without_an_id_gets_one() -> None:
    ids = Ids(Grammar(WORD_CHARS, 64))
    assert [ids.call(None), ids.call("a"), ids.call(None)] == ["toolwire_1", "a", "toolwire_3"]
    assert [ids.result(None), ids.result(None)] == ["toolwire_1", "toolwire_3"]


MADE = {
    generate_call_id(3): True,
    generate_call_id(3, 0): True,
    "toolwire_3": True,
    "toolwire_3_0": True,
    "gemini_12345": True,
    "gemini_1_2": True,
    "toolwire_": False,
    "toolwire_a": False,
    "toolwire_1_2_3": False,
    "my_toolwire_1": False,
    "call_1": False,
    "": False,
}


@pytest.mark.parametrize(("call_id", "made"), MADE.items())
def test_a_made_id_says_so(call_id: str, made: bool) -> None:
    assert is_generated_id(call_id) is made


def test_no_id_counts_as_made() -> None:
    assert is_generated_id(None)
    assert (generate_call_id(3), generate_call_id(3, 0)) == ("toolwire_3", "toolwire_3_0")


def test_numbers_and_fingerprints_are_derived() -> None:
    assert (number_of("msg_1"), number_of(None), number_of(7)) == (number_of("msg_1"), 0, 0)
    assert number_of("msg_1") != number_of("msg_2")
    assert number_of("\ud800") >= 0
    assert fingerprint(("a", 1)) == fingerprint(("a", 1))
    assert fingerprint(("a", 1)) != fingerprint(("a", 2))
    assert re.fullmatch("[0-9a-f]{24}", fingerprint("\ud800"))


WRITTEN: dict[str, tuple[list[str], list[str]]] = {
    "[a-zA-Z0-9]{9}": (["abcdefghi", "ABC123xyz"], ["abcdefgh", "abcdefghij", "abcdefgh-", "abcdefghé"]),
    "^[a-z0-9_-]{1,4}$": (["a", "a-_9"], ["", "abcde", "A"]),
    r"[\w.]{2,30}": (["a.", "_1a"], ["a", "a-b", "éé"]),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_grammar_is_read_from_text(text: str) -> None:
    legal, illegal = WRITTEN[text]
    grammar = read_grammar(text)
    assert [grammar.accepts(name) for name in (*legal, *illegal)] == [True] * len(legal) + [False] * len(illegal)
    assert all(grammar.accepts(escape(name, grammar)) for name in (*legal, *illegal))
    assert read_grammar(text) is grammar


@pytest.mark.parametrize(
    "text",
    ["", "nine", "[a-z0-9]+", "[a-z0-9]{0}", "[a-z0-9]{4,2}", "[z-a0-9]{9}", "[^a]{9}", "[a-z0-9]{9}x", "[A-Z]{9}"],
)
def test_what_is_no_grammar_is_refused_where_a_server_is_said(text: str) -> None:
    with pytest.raises(InvalidField, match=r"id_grammar must look like \[a-zA-Z0-9\]\{9\}"):
        read_grammar(text)
    with pytest.raises(InvalidField, match="id_grammar"):
        dialect("openai-chat", id_grammar=text)


def test_what_one_request_names_no_other_knows() -> None:
    names, ids = Names(None), Ids(None)
    names.write("a")
    ids.call("c")
    assert (names.written, ids.used) == ({"a": "a"}, {"c"})
    assert (Names(None).written, Names(None).originals, Ids(None).used) == ({}, {}, set())
    assert Ids(None).result("other") == "other"
    assert ids.result("c") == "c"


def test_a_name_is_written_alike_each_time() -> None:
    grammar = Grammar(WORD_CHARS, 64)
    for name in ("a", "srv/list", "x" * 64, "x" * 65, "ü" * 200):
        assert Names(grammar).write(name) == Names(grammar).write(name) == escape(name, grammar)
