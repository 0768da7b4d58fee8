"""The addresses of the page, and the view of each."""

from collections.abc import Callable
from typing import Any

from toolwire.page.context import show_context
from toolwire.page.conversations import send_media, show_conversation, show_conversations
from toolwire.page.exchanges import send_body, show_exchange
from toolwire.page.paste import show_paste
from toolwire.page.runs import answer_call, show_run, show_runs
from toolwire.page.shown import PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.page.spend import show_spend
from toolwire.page.traces import show_trace, show_traces
from toolwire.page.traffic import show_traffic

_ViewFunction = Callable[[Sources, PageRequest], Any]
_READ, _BOTH, _WRITE = ("GET",), ("GET", "POST"), ("POST",)
LIVE = "/page/live"
_ID = r"([^/]{1,300})"


def _paste(_sources: Sources, request: PageRequest) -> Shown:
    return show_paste({**request.query, **request.form})


def _source(sources: Sources, request: PageRequest) -> Shown:
    return show_paste({**request.query, "body": sources.pasted})


ROUTES: tuple[tuple[str, tuple[str, ...], _ViewFunction], ...] = (
    (r"/page/traffic", _READ, show_traffic),
    (rf"/page/exchanges/{_ID}", _READ, show_exchange),
    (rf"/page/exchanges/{_ID}/context", _READ, show_context),
    (rf"/page/exchanges/{_ID}/media/(\d{{1,6}})/(\d{{1,6}})", _READ, send_media),
    (rf"/page/exchanges/{_ID}/(\w+)", _READ, send_body),
    (r"/page/conversations", _READ, show_conversations),
    (rf"/page/conversations/{_ID}", _READ, show_conversation),
    (r"/page/spend", _READ, show_spend),
    (r"/page/traces", _READ, show_traces),
    (rf"/page/traces/{_ID}", _READ, show_trace),
    (r"/page/runs", _READ, show_runs),
    (rf"/page/runs/{_ID}", _READ, show_run),
    (rf"/page/runs/{_ID}/answer", _WRITE, answer_call),
    (r"/page/paste", _BOTH, _paste),
    (r"/page/source", _READ, _source),
)
