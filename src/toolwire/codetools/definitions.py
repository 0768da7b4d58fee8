"""The twelve tools as the model sees them, and their limits.

Rules of this file:
- Names, purposes and parameters are the contract; a small model must understand each description.
- The description of a tool names every limit that a model can reach.
"""

from typing import Any

from toolwire.types import Tool

READ_LINES = 2000
READ_BYTES = 50 * 1024
LINE_CHARACTERS = 500
FILE_BYTES = 10 * 1024 * 1024
IMAGE_BYTES = 5 * 1024 * 1024
WRITE_BYTES = 10 * 1024 * 1024
MAX_EDITS = 1000
OUTPUT_BYTES = 50 * 1024
COMMAND_SECONDS = 120
MAX_COMMAND_SECONDS = 600
COMMAND_BYTES = 64 * 1024
GREP_MATCHES = 100
GLOB_FILES = 1000
LIST_ENTRIES = 500
TREE_DEPTH = 3
TREE_ENTRIES = 500
SEARCH_SECONDS = 20
HTTP_BYTES = 1024 * 1024
HTTP_CHARACTERS = 50_000
HTTP_SECONDS = 20
MAX_HTTP_SECONDS = 60
REDIRECTS = 5

Schema = dict[str, Any]
PATH: Schema = {"type": "string", "description": "Path of the file, relative to the project folder."}
FOLDER: Schema = {
    "type": "string",
    "description": "Path of the folder, relative to the project folder. Default: the project folder.",
    "default": ".",
}


def _count(description: str, default: int | None = None, minimum: int = 1, maximum: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "description": description, "minimum": minimum}
    return (
        schema | ({} if maximum is None else {"maximum": maximum}) | ({} if default is None else {"default": default})
    )


def _seconds(description: str, most: int) -> Schema:
    return {"type": "number", "description": description, "exclusiveMinimum": 0, "maximum": most}


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _flag(description: str, *, default: bool = False) -> Schema:
    return {"type": "boolean", "description": description, "default": default}


# Writing a whole file twice gives the same file. An edit or a command that runs twice may do something else.
_EFFECTS = {"write_file": "idempotent", **dict.fromkeys(("edit_file", "multi_edit", "append_to_file", "bash"), "once")}


def _tool(name: str, description: str, required: list[str], /, *, writes: bool = False, **properties: Schema) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    flags = {"writes": True} if writes else {"parallel": True}
    return Tool(name, description, parameters, flags | {"effects": _EFFECTS.get(name, "none")})


_EDIT = {
    "oldText": _text(
        "The text to replace, exactly as it stands in the file, with every space and line break. "
        "It must be there exactly once; give more of the lines around it if it is not."
    ),
    "newText": _text("The text that takes its place."),
}
_EDITS: Schema = {
    "type": "array",
    "description": "The edits, in order: each sees what was made before. If one fails, no file is changed.",
    "minItems": 1,
    "maxItems": MAX_EDITS,
    "items": {
        "type": "object",
        "properties": {**_EDIT, "path": _text("Another file than that of the call.")},
        "required": ["oldText", "newText"],
        "additionalProperties": False,
    },
}
_KIBIBYTES = READ_BYTES // 1024

TOOLS = (
    _tool(
        "read_file",
        f"Read a file. Gives at most {READ_LINES} lines or {_KIBIBYTES} KB; a notice says how to read on. "
        "Images (PNG, JPEG, GIF, WebP) are given as images.",
        ["path"],
        path=PATH,
        offset=_count("The line to begin with; the first line is 1."),
        limit=_count("How many lines to read."),
    ),
    _tool(
        "write_file",
        "Write a whole file. What was in it is replaced; folders on the way are made. "
        "To change a part of a file, use edit_file.",
        ["path", "content"],
        writes=True,
        path=PATH,
        content=_text("All that the file will hold."),
        overwrite=_flag("Whether a file that is there may be replaced.", default=True),
    ),
    _tool(
        "edit_file",
        "Replace one piece of text in a file. oldText must be there exactly once, or nothing is changed.",
        ["path", "oldText", "newText"],
        writes=True,
        path=PATH,
        **_EDIT,
    ),
    _tool(
        "multi_edit",
        "Make several edits, in one file or in several. Either all are made or none.",
        ["edits"],
        writes=True,
        path=_text("Path of the file of those edits that name none."),
        edits=_EDITS,
    ),
    _tool(
        "append_to_file",
        "Add text to the end of a file; it is made if it is not there. No line break is added.",
        ["path", "content"],
        writes=True,
        path=PATH,
        content=_text("The text to add, with the line breaks that it needs."),
    ),
    _tool(
        "bash",
        "Run a shell command in the project folder. Gives its output and how it ended. It has no input, no "
        "terminal. Processes in the background (`&`) end with the command: to test a server, start it, use it "
        f"and stop it in one command. A command is stopped after its timeout ({COMMAND_SECONDS} s if none is given).",
        ["command"],
        writes=True,
        command=_text("The command, for bash."),
        timeout=_seconds(f"Seconds until it is stopped, at most {MAX_COMMAND_SECONDS}.", MAX_COMMAND_SECONDS),
    ),
    _tool(
        "grep",
        "Search the contents of files with a regular expression. Gives lines as `path:line: text`. "
        "Binary files and files over 100 MB are not searched.",
        ["pattern"],
        pattern=_text("The regular expression (Rust syntax: no look-around, no back-references)."),
        path={**FOLDER, "description": "File or folder to search. Default: the project folder."},
        glob=_text("Search only files that fit, such as *.py or src/**/*.ts."),
        ignoreCase=_flag("Whether capital and small letters are the same."),
        literal=_flag("Whether the pattern is plain text and no regular expression."),
        context=_count("Lines to show before and after each match.", 0, minimum=0, maximum=20),
        limit=_count("The most matches to give.", GREP_MATCHES, maximum=10 * GREP_MATCHES),
        ignored=_flag("Whether files that .gitignore names are searched too."),
    ),
    _tool(
        "glob",
        "Find files by name. Gives their paths, sorted.",
        ["pattern"],
        pattern=_text("The pattern, such as **/*.py: * is anything but /, ** any folders, {a,b} one of them."),
        path=FOLDER,
        limit=_count("The most files to give.", GLOB_FILES, maximum=10 * GLOB_FILES),
        ignored=_flag("Whether files that .gitignore names are found too."),
    ),
    _tool(
        "list_directory",
        "List what is in a folder: one entry a line, with / after folders.",
        [],
        path=FOLDER,
        limit=_count("The most entries to give.", LIST_ENTRIES, maximum=10 * LIST_ENTRIES),
    ),
    _tool(
        "tree",
        "Show a folder and what is in it as a tree, with sizes.",
        [],
        path=FOLDER,
        max_depth=_count("How many folders deep to look.", TREE_DEPTH, maximum=100),
        max_entries=_count("The most entries to show.", TREE_ENTRIES, maximum=10 * TREE_ENTRIES),
    ),
    _tool(
        "file_info",
        "Say what a path is: file, folder or link, its size, when it was changed, its mode.",
        ["path"],
        path={**PATH, "description": "Path of the file or folder, relative to the project folder."},
    ),
    _tool(
        "http_get",
        "Fetch a web page or file with GET, http or https only. HTML is given as readable text, "
        f"{HTTP_CHARACTERS} characters at a time; a notice says how to read on. "
        "Addresses of private networks are refused.",
        ["url"],
        url=_text("The address, with http:// or https://."),
        headers={"type": "object", "description": "Headers to send.", "additionalProperties": {"type": "string"}},
        timeout=_seconds(f"Seconds for all of it, at most {MAX_HTTP_SECONDS}.", MAX_HTTP_SECONDS),
        max_bytes=_count("The most bytes to read.", HTTP_BYTES, maximum=10 * HTTP_BYTES),
        raw=_flag("Whether HTML is given as it is, and not as readable text."),
        offset=_count("The character of the text to begin with; the first is 1."),
    ),
)
NAMES = tuple(tool.name for tool in TOOLS)
