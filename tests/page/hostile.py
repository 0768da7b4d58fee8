"""One table of 1,000 hostile texts: scripts, SVG, links, frames, styles, bidi, control characters, and long ones."""

import json
from itertools import product

AWAY = "https://evil.example"
_RUN = "window.__ran=1"
_SCRIPTS = (
    "<script>{run}</script>",
    "</script><script>{run}</script>",
    "<img src=x onerror={run}>",
    "<svg onload={run}>",
    "<svg><script>{run}</script></svg>",
    "<svg><animate onbegin={run} attributeName=x dur=1s>",
    '<svg><use href="data:image/svg+xml,<svg id=x onload={run}>#x">',
    "<math><mtext><script>{run}</script></mtext></math>",
    "<iframe srcdoc='<script>parent.{run}</script>'></iframe>",
    "<iframe src=javascript:{run}></iframe>",
    "<object data=javascript:{run}></object>",
    "<embed src=javascript:{run}>",
    "<a href=javascript:{run} autofocus>x</a>",
    "<form action={away}><button autofocus>x</button></form>",
    "<input autofocus onfocus={run}>",
    "<details open ontoggle={run}>",
    "<video><source onerror={run}></video>",
    "<body onload={run}>",
    "<style>@import '{away}/x.css';</style>",
    "<link rel=stylesheet href={away}/x.css>",
    "<meta http-equiv=refresh content='0;url={away}'>",
    "<base href={away}>",
    "<img src={away}/pixel.png>",
    "<div style='background:url({away}/x)'>",
    "<template><script>{run}</script></template>",
    "<noscript><p title='</noscript><img src=x onerror={run}>'>",
    "<marquee onstart={run}>",
    "<!--><script>{run}</script-->",
    "{{{{ {run} }}}} {{% import os %}} {{{{ ''.__class__.__mro__ }}}}",
    "${{{run}}} #{{{run}}} <%= {run} %>",
)
_WRAPS = (
    "{}",
    '"{}',
    "'{}",
    '">{}',
    "'>{}",
    "</textarea>{}",
    "</title>{}",
    "</style>{}",
    "</pre>{}",
    "</td></tr></table>{}",
    "</details></div></main>{}",
    "-->{}",
    "]]>{}",
    "\\x3c{}",
    "&lt;{}&gt;",
    "javascript:{}",
    "\u202e{}\u202c",
    "\x1b[31m{}\x1b[0m",
    "\x00{}\x00",
    "{}\ud800",
    "\u2028{}\u2029",
    "data:text/html,{}",
)
_OTHERS = [
    "javascript:alert(1)",
    "\u202egnp.exe",
    "\u2066abc\u2069\u200b\u200f",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x07\x08\x7f",
    "a\u0300" * 5000,
    "\U000e0041" * 100,
    "Z\u0351\u0352\u0353" * 2000,
    "x" * 10_000_000,
    "<" * 100_000,
    "&" * 100_000,
    "\n" * 20_000,
    "word " * 50_000,
    "W" * 300_000,
    json.dumps({"a": ["x"] * 1000}),
    "[" * 3000 + "]" * 3000,
    "{" + '"a":{' * 500 + "}" * 501,
    "../../../../etc/passwd",
    "%00%0d%0aSet-Cookie: a=b",
    "\r\nLocation: https://evil.example\r\n\r\n<script>",
    "' OR 1=1 --",
    '=HYPERLINK("https://evil.example")',
    "",
    " ",
    "\ufeff",
    "None",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "العربية עברית",
    "https://evil.example/a b",
    "//evil.example/x",
]


def payloads() -> list[str]:
    """Return the table."""
    filled = [script.format(run=_RUN, away=AWAY) for script in _SCRIPTS]
    table = [wrap.format(text) for wrap, text in product(_WRAPS, filled)]
    mixed = [f"{first[:40]}{second}" for first, second in zip(table[::2], reversed(table[1::2]), strict=True)]
    return [*_OTHERS, *table, *mixed][:1000]


def deep(depth: int, inner: object = "<script>window.__ran=1</script>") -> object:
    """Return a value inside of lists and objects."""
    value = inner
    for index in range(depth):
        value = [value] if index % 2 else {"<b>": value}
    return value
