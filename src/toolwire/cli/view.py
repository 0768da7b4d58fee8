"""`toolwire view` and `toolwire export`: a page of what was recorded, served here or written as one file.

Rules of this file:
- On loopback the page needs no sign-in. Elsewhere a link that works once is printed.
- With the address of a gateway, `view` asks it for such a link, with the admin key in `TOOLWIRE_KEY`. The key is never
  an argument, because other users of a machine see arguments.
"""

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any

from toolwire.cli.commands import SUMMARIES
from toolwire.cli.parsing import require_extra
from toolwire.cli.records import add_source, database_url
from toolwire.errors import InvalidField, UserError

KEY = "TOOLWIRE_KEY"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_REFUSED = 400


def add(commands: Any) -> None:
    """Add the commands `view` and `export`."""
    command = commands.add_parser("view", help=SUMMARIES["view"])
    command.add_argument(
        "source", metavar="SOURCE", help="a database, a file of one body or stream, or a gateway's URL"
    )
    command.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="where to listen (default: a free port here)"
    )
    command.set_defaults(run=view)
    command = commands.add_parser("export", help=SUMMARIES["export"])
    command.add_argument("id", metavar="ID", help="the id of the request, as x-toolwire-request has it")
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write; - is the output")
    add_source(command)
    command.set_defaults(run=export)


def view(options: argparse.Namespace) -> int:
    """Serve a page until Ctrl-C, or print the link to a gateway's page."""
    if options.source.startswith(("http://", "https://")):
        print(_link_of(options.source.rstrip("/")))
        return 0
    with require_extra("serve", "to show a page"):
        from toolwire.gateway.serving import listen  # noqa: PLC0415 - an extra
        from toolwire.page import Hosts, PageApplication, SignIn  # noqa: PLC0415 - likewise
        from toolwire.page.opening import open_source  # noqa: PLC0415 - likewise
    from toolwire.config.settings import is_address  # noqa: PLC0415 - other commands need no settings

    if not is_address(options.listen):
        raise InvalidField("--listen", f"must be HOST:PORT, not {options.listen!r}")
    is_local = options.listen.rpartition(":")[0].strip("[]") in _LOOPBACK
    with contextlib.ExitStack() as stack:
        sources = open_source(options.source, stack)
        sign_in = None if is_local else SignIn()
        page = PageApplication(sources, Hosts(loopback=is_local), sign_in)
        opened = listen(options.listen)
        host, port = opened.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        token = "" if sign_in is None else f"/page/sign-in?link={sign_in.make_link()}"
        _serve(page, opened, f"toolwire shows {url}{token or '/'}")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write one exchange as a file."""
    with require_extra("serve", "to read records"):
        from toolwire.page.export import export_exchange  # noqa: PLC0415 - an extra
        from toolwire.page.opening import open_database  # noqa: PLC0415 - likewise

    with contextlib.ExitStack() as stack:
        sources = open_database(database_url(options), stack)
        record = None if sources.records is None else sources.records.read(options.id)
        if record is None:
            raise InvalidField("ID", f"belongs to no record of this database: {options.id!r}")
        text = export_exchange(record, sources)
    if options.output == "-":
        print(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8", errors="replace")
    return 0


def _serve(page: Any, opened: Any, greeting: str) -> None:
    """Serve until Ctrl-C. Print the greeting once the server accepts connections."""
    import uvicorn  # noqa: PLC0415 - an extra

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(greeting, flush=True)

        def handle_exit(self, sig: int, frame: Any) -> None:
            page.stop()
            super().handle_exit(sig, frame)

    settings = uvicorn.Config(
        page, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=2
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again
        Server(settings).run([opened])


def _link_of(url: str) -> str:
    """Return a link that signs in at a gateway's page once."""
    import httpx2  # noqa: PLC0415 - other sources need no client

    key = os.environ.get(KEY)
    if not key:
        raise UserError(
            f"holds the admin key of the gateway, and is not set: {KEY}=tw-... toolwire view {url}", path=KEY
        )
    try:
        answer = httpx2.post(f"{url}/page/links", headers={"authorization": f"Bearer {key}"}, timeout=10)
    except httpx2.HTTPError as problem:
        raise UserError(f"cannot be reached: {problem}", path=url) from None
    try:
        values = answer.json()
    except ValueError:
        values = {}
    if answer.status_code >= _REFUSED or "path" not in values:
        reason = values.get("problem") or f"the gateway has no page (HTTP {answer.status_code}): see [page] on"
        raise UserError(str(reason), path=url)
    return f"{url}{values['path']}"
