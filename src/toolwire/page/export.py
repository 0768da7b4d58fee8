"""An exchange as one file that opens without a network, and runs nothing."""

import hashlib
from base64 import b64encode

from markupsafe import Markup

from toolwire.page.exchanges import exchange_values
from toolwire.page.rendering import asset, render
from toolwire.page.sources import Sources
from toolwire.records.record import Record


def export_exchange(record: Record, sources: Sources) -> str:
    """Return the HTML of an exchange with its stylesheet inside. Its policy allows this stylesheet and nothing else."""
    data, extra = exchange_values(sources, record, "body")
    style = asset("page.css").decode()
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    values = {
        **extra,
        "data": data,
        "title": data["title"],
        "style": Markup(style),  # noqa: S704 - our own file
        "policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    }
    return render("export.html", values)
