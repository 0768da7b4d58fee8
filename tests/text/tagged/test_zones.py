"""Where no call is read, and where that ends: each form of it."""

import pytest

from tests.text.tagged.texts import BLOCK
from toolwire.text_tagged import parse

# A block stands within each text; another one follows it, which is a call if what is before it has ended.
ENDED = [
    "```\n{}\n```\n",
    "```python\n{}\n```\n",
    "   ```\n{}\n  ```  \n",
    "`````\n{}\n```\n````\n`````\n",
    "```\n{}\n~~~\n``\n``` x\n    ```\n``````\n",
    "~~~~\n{}\n~~~\n~~~~\n",
    "~~~~ text\n{}\n```\n~~~~~\t\n",
    "~~~tool_call x\n{}\n",
    "<!-- x\n{}\n--> y\n",
    "<!--\n{}\n<!-- -->\n",
    "<think>\n{}\n</think>\n",
    "  <THINK>hm\n{}\nso</Think> yes\n",
    "<thinking>\n{}\n</think>\n</thinking>\n",
    "<pre class='x'>\n{}\n</pre>\n",
    "<script>\n{}\n</script>\n",
]
OPEN = [text.rsplit("\n", 2)[0] + "\n" for text in ENDED if text.count("\n") > 2]
NONE = [
    "``\n",
    "    ```\n",
    "\t```\n",
    "> ```\n",
    "``` a ` b\n",
    "x ```\n",
    "~~\n",
    "<!-- a --> b\n",
    "a <!-- b\n",
    "<think>a</think>\n",
    "I <think>\n",
    "<thin>\n",
    "<p>\n",
    "    <pre>\n",
    "```\nx\n```\n",
    "~~~\nx\n~~~\n",
]


@pytest.mark.parametrize("text", ENDED)
@pytest.mark.row("I5")
def test_no_call_is_read_in_a_zone_and_one_after_it_is(text: str) -> None:
    whole = text.format(BLOCK)
    assert [call.index for call in parse(f"{whole}{BLOCK}\n").calls] == [0]
    assert parse(f"{whole}{BLOCK}\n").text == whole
    assert parse(whole.replace("\n", "\r\n") + BLOCK).text == whole.replace("\n", "\r\n")


@pytest.mark.parametrize("text", OPEN)
def test_a_zone_that_nothing_ended_goes_on(text: str) -> None:
    whole = f"{text.format(BLOCK.replace('~~~', '~~'))}{BLOCK}\nx\n"
    read = parse(whole)
    assert (read.calls, read.errors, read.text) == ([], [], whole)


@pytest.mark.parametrize("text", NONE)
def test_what_only_looks_like_a_zone_is_none(text: str) -> None:
    assert len(parse(f"{text}{BLOCK}").calls) == 1
    assert parse(f"{text}{BLOCK}").text == text
