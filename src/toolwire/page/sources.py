"""What the page shows: the stores that were opened for it, and which views they make possible."""

from typing import Any

from msgspec import Struct

HOME = "/page/paste"


class View(Struct, frozen=True):
    """An entry of the menu: its name, its address, and how to turn it on where it has nothing to show."""

    name: str
    url: str
    hint: str = ""


class Sources(Struct, kw_only=True):
    """The stores of a page. None is a store that is not there.

    `all_views` shows the menu whole, with a hint where a store is missing.
    """

    records: Any = None
    traces: Any = None
    runs: Any = None
    usage: Any = None
    pasted: str = ""
    pasted_name: str = ""
    all_views: bool = False
    where: str = ""

    def menu(self) -> list[View]:
        """Return the views of the menu."""
        present = {
            "Traffic": self.records,
            "Conversations": self.records,
            "Spend": self.usage or self.records,
            "Traces": self.traces,
            "Runs": self.runs,
            "Paste": True,
        }
        return [view for view in _VIEWS if present[view.name] is not None or self.all_views]

    def home(self) -> str:
        """Return the address of the first view that has something to show."""
        for store, url in (
            (self.pasted or None, "/page/source"),
            (self.records, "/page/traffic"),
            (self.traces, "/page/traces"),
            (self.runs, "/page/runs"),
        ):
            if store is not None:
                return url
        return HOME


_RECORDS_HINT = "Nothing is recorded: a section [record] with bodies = true in the file of settings turns it on."
_VIEWS = (
    View("Traffic", "/page/traffic", _RECORDS_HINT),
    View("Conversations", "/page/conversations", _RECORDS_HINT),
    View("Spend", "/page/spend", "Nothing is counted: [server] database in the file of settings turns it on."),
    View("Traces", "/page/traces", "No calls are recorded: [traces] url in the file of settings turns it on."),
    View("Runs", "/page/runs", "No database of runs is named: [page] runs in the file of settings turns it on."),
    View("Paste", HOME),
)
