"""A method that is a tool has its object."""

from toolwire import tool


class Shop:
    @tool
    def buy(self, item: str) -> str:
        """Buy something."""
        return item


Shop().buy()  # error: call-arg, reportCallIssue
