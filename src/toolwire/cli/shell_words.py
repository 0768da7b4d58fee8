"""The simple commands in a command line of bash, for the rules about commands.

Rules of this file:
- `split_commands` returns the simple commands of a line only if it can read all of it: words, quotes, and the operators
  between commands. It returns None for a line with substitutions, expansions, redirections, groups or keywords, because
  an allowed pattern must not allow what such a line also runs.
- `loose_words` returns every word that may be part of a command, whatever surrounds it, for rules that deny.
"""

import re
import shlex

_OPERATORS = ("&&", "||", "|&", ";;", "|", ";", "&", "\n")
# Characters outside quotes that do more than separate words or commands.
_SPECIAL = frozenset("$`<>(){}!#~")
_KEYWORDS = frozenset(
    "if then elif else fi for while until do done case esac in select function time coproc [[ ]] . source eval exec "
    "command builtin trap alias export declare typeset local readonly set shopt enable let unset".split()
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_WORD_BREAKS = re.compile(r"[\s;|&()<>`{}]+|\$\(")
_QUOTES = str.maketrans("", "", "\"'\\")
_QUOTES_AS_BREAKS = str.maketrans(dict.fromkeys("\"'", " "))
_SHELL_BREAKS = re.compile(r"\s*(?:&&|\|\||[;|&\n(){}`]|\$\()\s*")


def split_commands(line: str) -> list[list[str]] | None:
    """Return the words of each simple command of `line`; None if the line may do anything else."""
    parts = _split_at_operators(line)
    if parts is None:
        return None
    commands = []
    for part in parts:
        try:
            words = shlex.split(part, posix=True)
        except ValueError:
            return None
        if not words:
            continue
        if words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            return None
        commands.append(words)
    return commands or None


def _split_at_operators(line: str) -> list[str] | None:
    """Return the parts of `line` between operators; None if it has something else than words and quotes."""
    parts, start, index, quote = [], 0, 0, ""
    while index < len(line):
        one = line[index]
        if quote == "'":
            quote = "" if one == "'" else quote
        elif one == "\\":
            if line[index + 1 : index + 2] == "\n":
                return None
            index += 1
        elif quote == '"':
            if one in "$`":
                return None
            quote = "" if one == '"' else quote
        elif one in "\"'":
            quote = one
        elif one in _SPECIAL or (one < " " and one not in "\t\n"):  # bash and shlex disagree about other blanks
            return None
        elif operator := next((word for word in _OPERATORS if line.startswith(word, index)), ""):
            parts.append(line[start:index])
            index += len(operator) - 1
            start = index + 1
        index += 1
    return None if quote else [*parts, line[start:]]


def loose_words(line: str) -> list[list[str]]:
    """Return the words of `line` in several readings: with quotes removed, and with quotes as ends of words."""
    joined = line.replace("\\\n", "")
    return [
        [word for word in _WORD_BREAKS.split(text) if word]
        for text in (joined.translate(_QUOTES), joined.translate(_QUOTES_AS_BREAKS).replace("\\", ""))
    ]


def computes_its_command(line: str) -> bool:
    """Return True if a word in the position of a command is computed, so that no rule can name it."""
    for part in _SHELL_BREAKS.split(line.replace("\\\n", "")):
        words = [word for word in part.split() if not _ASSIGNMENT.match(word)]
        if words and (words[0].lstrip("\"'").startswith("$") or words[0] in ("eval", ".", "source")):
            return True
    return False
