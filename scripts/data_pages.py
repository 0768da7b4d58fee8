"""Write a page for each provider, and what `launch` sets for each program, from the data that the code uses.

`make docs` writes `docs/providers/*.md`, and the part of `docs/programs/*.md` between the marks.
"""

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe
import msgspec

import toolwire
from toolwire import catalogue
from toolwire.cli.programs import PROGRAMS, Endpoint, LaunchSetup, Program
from toolwire.providers import ALIASES, PROVIDERS
from toolwire.providers.catalogue import Model
from toolwire.providers.known import Capabilities, Provider

DOCS = Path(__file__).resolve().parent.parent / "docs"
KNOWN = Path(toolwire.__file__).with_name("providers") / "known.json"
BEGIN, END = "<!-- made by `make docs` from the code -->\n", "<!-- end of what `make docs` makes -->\n"
WIRES = {
    "openai-chat": "Chat Completions",
    "openai-responses": "Responses",
    "anthropic": "Messages",
    "gemini": "generateContent",
    "ollama": "Ollama's chat",
}
TITLES = {
    "anthropic": "Anthropic",
    "azure": "Azure OpenAI",
    "deepseek": "DeepSeek",
    "fireworks": "Fireworks AI",
    "gemini": "Gemini",
    "groq": "Groq",
    "llama.cpp": "llama.cpp",
    "lmstudio": "LM Studio",
    "mistral": "Mistral",
    "ollama": "Ollama",
    "ollama-v1": "Ollama, over Chat Completions",
    "openai": "OpenAI, over Chat Completions",
    "openai-responses": "OpenAI, over Responses",
    "openrouter": "OpenRouter",
    "together": "Together AI",
    "vllm": "vLLM",
    "xai": "xAI",
}
# Sentences about a server that has a capability, and about one that has not.
CAPABILITIES = {
    "native_tool_calls": (
        "It has native tool calls.",
        "It has no native tool calls: tools are described in the prompt.",
    ),
    "parallel_tool_calls": ("It calls several tools in one answer.", "It calls one tool in an answer."),
    "tool_choice": (
        "It accepts a tool choice.",
        "It ignores a tool choice: the client asks again if a required call is missing.",
    ),
    "named_choice": (
        "A tool choice may name a tool.",
        "A tool choice that names a tool is ignored: that tool alone is offered.",
    ),
    "developer_role": ("It has the role `developer`.", "It has no role `developer`: `system` is sent instead."),
    "custom_tools": (
        "It accepts tools of free text.",
        "It accepts no tools of free text: they become functions with one text.",
    ),
    "strict_tools": ("It accepts `strict` of a tool.", "It does not accept `strict` of a tool."),
    "structured_output": (
        "It has structured output.",
        "It has no structured output: a tool or the prompt replaces it.",
    ),
    "structured_output_with_tools": (
        "It accepts tools and a schema for the answer in one request.",
        "It does not accept tools and a schema for the answer in one request.",
    ),
    "streaming": ("It streams.", "It does not stream."),
    "images": ("It accepts images.", "It accepts no images."),
    "clearing": ("It clears old results itself.", "It does not clear old results: the client does."),
    "prompt_cache": ("It takes the key and the marks of OpenAI's prompt cache.", "It takes no key of a prompt cache."),
}
EXAMPLES = {
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-3.5-flash",
    "ollama": "qwen3",
    "openai": "gpt-4o",
    "openai-responses": "gpt-4o",
}


def pages() -> dict[Path, str]:
    """Return each page that is made from the data, or has a part that is."""
    texts = {DOCS / "providers" / f"{file_name(name)}.md": provider_page(name) for name in PROVIDERS}
    texts[DOCS / "providers" / "README.md"] = index_page()
    for name, program in PROGRAMS.items():
        page = DOCS / "programs" / f"{name}.md"
        before, _, after = page.read_text("utf-8").partition(BEGIN)
        block = "\n".join(_launch(program, name))
        texts[page] = f"{before.rstrip()}\n\n{BEGIN}\n{block}\n{END}{after.partition(END)[2]}"
    return texts


def file_name(provider: str) -> str:
    """Return the name of a provider's page, without its suffix."""
    return provider.replace(".", "-")


def title(provider: str) -> str:
    """Return the heading of a provider's page."""
    return TITLES.get(provider, provider)


# Providers


def index_page() -> str:
    """Return the list of all providers."""
    rows = "\n".join(
        f"| [{title(name)}]({file_name(name)}.md) | `{name}` | {WIRES[one.dialect]} | {_variables(one) or 'none'} |"
        for name, one in PROVIDERS.items()
    )
    return f"""# Providers

Every provider that toolwire knows by its name. `make docs` generates these pages from
`src/toolwire/providers/known.json`. Any other server needs only an address: [Clients](../clients.md#providers).

| page | name | wire | key |
|---|---|---|---|
{rows}
"""


def provider_page(name: str) -> str:
    """Return the page of one provider."""
    provider = PROVIDERS[name]
    return "\n".join([f"# {title(name)}", "", *_intro(name, provider), *_differences(provider), *_models(name)])


def _intro(name: str, provider: Provider) -> Iterator[str]:
    facts, example = _facts()[name], EXAMPLES.get(name, "MODEL")
    yield f"The provider `{name}`: its address, its key, how it differs, and its models. Its wire is"
    yield f"{WIRES[provider.dialect]} (dialect `{provider.dialect}`)."
    yield from ("", "```python", "from toolwire import generate", "from toolwire.testing import simulate", "")
    yield from ('with simulate(["Hello, Ann."]) as model:', '    here = {"base_url": model.url, "api_key": "any"}')
    yield from (f'    print(generate("I am Ann.", model="{name}/{example}", **here).content)', "```")
    yield from ("", "```text", "Hello, Ann.", "```", "")
    key = f"set {_variables(provider)}, and " if provider.env and not provider.local else ""
    yield f"To ask the real server, {key}leave out `simulate` and `**here`. On the command line it is"
    yield f'`--model {name}/{example}`, in a route of the gateway `to = ["{name}/{example}"]`.'
    yield from ("", "| | |", "|---|---|", f"| address | `{provider.base_url}` |")
    if provider.base_url_env:
        yield f"| another address | `base_url=`, or `{provider.base_url_env}` |"
    yield f"| key | {_key(provider)} |"
    yield from (f"| header | `{header}: {value}` |" for header, value in provider.headers.items())
    if others := [alias for alias, target in ALIASES.items() if target == name]:
        yield f"| other names | {', '.join(f'`{other}`' for other in others)} |"
    yield from (f"| source | {facts['source']}, {facts['as_of']} |", "")


def _key(provider: Provider) -> str:
    if not provider.env:
        return f"none; `{provider.api_key}` is sent" if provider.api_key else "none"
    header = "Authorization: Bearer" if provider.auth == "Authorization" else provider.auth
    optional = "; a local server needs none" if provider.local else ""
    return f"{_variables(provider)}, sent as `{header}`{optional}"


def _variables(provider: Provider) -> str:
    return " or ".join(f"`{name}`" for name in provider.env)


def _differences(provider: Provider) -> Iterator[str]:
    """Write how the server deviates from its dialect."""
    usual = Capabilities()
    lines = [
        f"- {CAPABILITIES[name][0 if value else 1]} (`{name}`)"
        for name, value in msgspec.structs.asdict(provider.capabilities).items()
        if value != getattr(usual, name)
    ]
    quirks = _quirks()
    lines += [f"- `{name}={value!r}`: {quirks[name]}" for name, value in provider.quirks.items()]
    if lines:
        yield from ("## How it differs from others of its wire", "", *lines, "")
        yield "For a server of your own, set the same with `capabilities={...}` and `quirks={...}`."
    yield f"The [support matrix](../support-matrix.md) lists in column `{provider.dialect}` what this wire can express."
    yield ""


def _models(name: str) -> Iterator[str]:
    models = catalogue.models(name.removesuffix("-responses").removesuffix("-v1"))
    if not models:
        return
    # Models whose prices have a full date are newer: they come first.
    models = tuple(sorted(models, key=lambda model: not _as_of(model)[:1].isdigit()))
    yield from ("## Models in the catalogue", "", "USD per million tokens; `toolwire models` prints all columns.", "")
    yield from ("| model | window | input | cached input | output | as of |", "|---|---:|---:|---:|---:|---|")
    for model in models:
        price = model.price
        costs = [price.input, price.cache_read, price.output] if price else [None] * 3
        cells = [f"{model.context_window:,}" if model.context_window else "", *map(_money, costs)]
        yield f"| `{model.name}` | {' | '.join(cells)} | {_as_of(model)} |"
    yield ""


def _as_of(model: Model) -> str:
    return model.price.as_of if model.price else model.as_of


def _money(amount: float | None) -> str:
    return "" if amount is None else f"{amount:g}"


@cache
def _facts() -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in msgspec.json.decode(KNOWN.read_bytes())}


@cache
def _quirks() -> dict[str, str]:
    """Return the sentence of each quirk."""
    package = griffe.load("toolwire", search_paths=[Path(toolwire.__file__).parent.parent])
    members = package["encoding.quirk_options.QuirkOptions"].members.items()
    return {name: " ".join(one.docstring.value.split()) for name, one in members if one.docstring}


# Programs


def _launch(program: Program, name: str) -> Iterator[str]:
    """Write what `launch` sets for a program, so that it can be set by hand."""
    setup = program.configure(Endpoint(url="URL", key="KEY", folder="FOLDER", model="M"))
    yield from (
        "## What `launch` sets",
        "",
        "To configure the program by hand, start [`toolwire serve`](../gateway.md),",
    )
    yield "and replace `URL` by its address, `KEY` by one of its keys, and `M` by a model or a route."
    yield from ("", "```sh", *_shell(setup, name), "```", "")
    for file, text in setup.files.items():
        yield from (f"`FOLDER/{file}`:", "", "```js" if file.endswith("mjs") else "```json", text.strip(), "```", "")
    if program.removed:
        yield f"Removed from its environment: {', '.join(f'`{one}`' for one in program.removed)}."
        yield ""


def _shell(setup: LaunchSetup, name: str) -> Iterator[str]:
    yield from (f"export {key}={shlex.quote(value)}" for key, value in setup.variables.items())
    yield shlex.join([name, *setup.arguments])


if __name__ == "__main__":
    (DOCS / "providers").mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(DOCS)}")
