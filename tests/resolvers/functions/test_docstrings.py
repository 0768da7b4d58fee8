"""Docstrings of the three styles, and without any: prose, parameters, result."""

import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.errors import MissingExtra, UserError
from toolwire.resolvers.functions import docstrings
from toolwire.resolvers.functions.docstrings import Docstring, read_docstring
from toolwire.resolvers.functions.signature import read_signature

GOOGLE = """
    Find things.

    More prose,
    on two lines.

    Args:
        query (str): What to find.
            It may have: a colon.
        *rest: The others.
        limit: How many.
        silent:

    Keyword Args:
        deep (bool, optional): Whether below.

    Returns:
        The things.

    Raises:
        ValueError: If there are none.

    Example:
        >>> find("a")
        ['a']

    Note:
        It is slow.
    """
NUMPY = """Find things.

    More prose,
    on two lines.

    Parameters
    ----------
    query : str
        What to find.
        It may have: a colon.
    *rest
        The others.
    limit, most : int, optional
        How many.

    Other Parameters
    ----------------
    deep : bool
        Whether below.

    Returns
    -------
    list
        The things.

    Raises
    ------
    ValueError
        If there are none.

    Notes
    -----
    It is slow.
    """
SPHINX = """Find things.

    More prose,
    on two lines.

    :param query: What to find.
        It may have: a colon.
    :type query: str
    :param int limit: How many,
      at most.
    :keyword deep: Whether below.
    :returns: The things.
    :rtype: list
    :raises ValueError: If there are none.

    It is slow.
    """
PROSE = "Find things.\n\nMore prose,\non two lines."
CASES: dict[str, tuple[str | None, Docstring]] = {
    "none": (None, Docstring()),
    "empty": ("  \n ", Docstring()),
    "prose": (
        "\n  Find.\n\n  More: much more.\n    Indented.\n",
        Docstring("Find.\n\nMore: much more.\n  Indented."),
    ),
    "Google": (
        GOOGLE,
        Docstring(
            f"{PROSE}\n\nExample:\n    >>> find(\"a\")\n    ['a']\n\nNote:\n    It is slow.",
            {
                "query": "What to find.\nIt may have: a colon.",
                "rest": "The others.",
                "limit": "How many.",
                "deep": "Whether below.",
            },
            "The things.",
        ),
    ),
    "NumPy": (
        NUMPY,
        Docstring(
            f"{PROSE}\n\nNotes\n-----\nIt is slow.",
            {
                "query": "What to find.\nIt may have: a colon.",
                "rest": "The others.",
                "limit": "How many.",
                "most": "How many.",
                "deep": "Whether below.",
            },
            "The things.",
        ),
    ),
    "Sphinx": (
        SPHINX,
        Docstring(
            f"{PROSE}\n\nIt is slow.",
            {
                "query": "What to find.\nIt may have: a colon.",
                "limit": "How many,\nat most.",
                "deep": "Whether below.",
            },
            "The things.",
        ),
    ),
    "Google, parameters alone": (
        "Args:\n    a: One.\n    b: Two.",
        Docstring(None, {"a": "One.", "b": "Two."}),
    ),
    "Google, a blank line below the heading": (
        "Do.\n\nArgs:\n\n    a: One.",
        Docstring("Do.", {"a": "One."}),
    ),
    "Google, sections without blank lines": (
        "Do.\nArgs:\n    a: One.\nReturns:\n    It.",
        Docstring("Do.", {"a": "One."}, "It."),
    ),
    "Google, prose below": (
        "Do.\n\nArgs:\n    a: One.\n\nLast words.",
        Docstring("Do.\n\nLast words.", {"a": "One."}),
    ),
    "Sphinx, parameters alone": (
        ":param a: One.\n:param b: Two.",
        Docstring(None, {"a": "One.", "b": "Two."}),
    ),
    "Sphinx, types alone": ("Do.\n\n:type a: int\n:rtype: int", Docstring("Do.")),
    "returns alone": ("Do.\n\nReturns:\n    It.", Docstring("Do.", {}, "It.")),
    "a heading that is none": (
        "Args: none of them.\n\nReturns:",
        Docstring("Args: none of them.\n\nReturns:"),
    ),
    "a colon in prose": (
        "Use :param: as it is, or:\n\n- a: one",
        Docstring("Use :param: as it is, or:\n\n- a: one"),
    ),
    "inside of a block of code": (
        "Do.\n\n```\nArgs:\n    a: One.\n:param b: Two.\n```",
        Docstring("Do.\n\n```\nArgs:\n    a: One.\n:param b: Two.\n```"),
    ),
    "a table in prose": ("Do.\n\nName\n----\nArgs", Docstring("Do.\n\nName\n----\nArgs")),
    "not ASCII": (
        "Möge es.\n\nArgs:\n    größe: Wie groß. 👍",
        Docstring("Möge es.", {"größe": "Wie groß. 👍"}),
    ),
    "yields": ("Do.\n\nYields:\n    Some.", Docstring("Do.", {}, "Some.")),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_docstring_is_read(text: str | None, expected: Docstring) -> None:
    assert read_docstring(text) == expected


WITHOUT = [name for name, (_, expected) in CASES.items() if not expected.parameters]


@pytest.mark.parametrize("name", WITHOUT)
def test_the_prose_is_the_same_without_griffelib(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)
    text, expected = CASES[name]
    assert read_docstring(text).description == expected.description


@pytest.mark.parametrize("name", sorted(CASES.keys() - set(WITHOUT)))
def test_parameters_are_not_lost_in_silence_without_griffelib(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)
    with pytest.raises(MissingExtra, match=r"pip install 'toolwire\[tools\]'") as caught:
        read_docstring(CASES[name][0])
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, ImportError)


def test_griffelib_is_not_imported_for_prose() -> None:
    code = """
import sys
from toolwire.resolvers.functions.docstrings import read_docstring
read_docstring("Do.\\n\\nNote:\\n  x")
assert "griffe" not in sys.modules
read_docstring("Do.\\n\\nArgs:\\n  a: b")
assert "griffe" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


BAD = """Do.

    Args:
        a One without a colon.
        b (int: A type that does not end.
        unknown: Not a parameter.

    Returns:
        int: It.

    Raises:
        Nonsense
    """


def test_a_docstring_with_mistakes_says_nothing_to_the_user(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    assert read_docstring(BAD).description == "Do."
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_a_description_in_an_annotation_wins() -> None:
    from typing import Annotated

    def find(query: Annotated[str, "From the annotation."], limit: int, **others: int) -> None:
        """Find.

        Args:
            query: From the docstring.
            limit: How many.
            others: Unused.
        """

    signature = read_signature(find)
    told = {name: schema.get("description") for name, schema in signature.parameters["properties"].items()}
    assert told == {"query": "From the annotation.", "limit": "How many."}
    assert signature.description == "Find."


@given(st.lists(st.sampled_from([*GOOGLE.splitlines(), *NUMPY.splitlines(), *SPHINX.splitlines(), "```", "x"])))
def test_any_mixture_is_read(lines: list[str]) -> None:
    read: Any = read_docstring("\n".join(lines))
    assert isinstance(read, Docstring)
    assert all(words and not name.startswith("*") for name, words in read.parameters.items())


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert isinstance(read_docstring(text), Docstring)


def test_every_style_is_tried() -> None:
    assert docstrings.STYLES.keys() == {"google", "numpy", "sphinx"}
