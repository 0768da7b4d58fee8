"""The page: traffic, records, runs and traces, to look at in a browser."""

from toolwire.page.access import Hosts, Rejected, SignIn
from toolwire.page.app import PageApplication
from toolwire.page.sources import Sources

__all__ = ["Hosts", "PageApplication", "Rejected", "SignIn", "Sources"]
