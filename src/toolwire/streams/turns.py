"""Calls in turn: on a wire where the next call closes the one before, a call begins after the one before has ended.

Whether a call may run is known at its end. A call that is not to run must say so before another call closes it.
"""

from toolwire.types import CallDelta, CallEnd, CallStart, Event


class CallTurns:
    """Put the calls of each answer in turn: what comes of a later call waits until the call before has ended."""

    def __init__(self) -> None:
        self._choices: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._waiting: dict[int, dict[int, list[Event]]] = {}

    def take(self, event: Event) -> list[Event]:
        """Take an event, and return those that may be written now."""
        match event:
            case CallStart(key=key, choice=choice):
                self._choices[key] = choice
                if choice in self._open:
                    self._waiting.setdefault(choice, {})[key] = [event]
                    return []
                self._open[choice] = key
            case CallDelta(key=key) | CallEnd(key=key) if key in self._choices:
                return self._go_on(event, key, self._choices[key])
        return [event]

    def _go_on(self, event: Event, key: int, choice: int) -> list[Event]:
        waiting = self._waiting.get(choice, {})
        if key in waiting:
            waiting[key].append(event)
            return []
        if type(event) is not CallEnd:
            return [event]
        self._open.pop(choice, None)
        told: list[Event] = [event]
        while waiting and choice not in self._open:
            key = next(iter(waiting))
            told += (events := waiting.pop(key))
            if type(events[-1]) is not CallEnd:
                self._open[choice] = key
        return told

    def flush(self) -> list[Event]:
        """Return all that waits."""
        waiting, self._waiting, self._open = self._waiting, {}, {}
        return [event for calls in waiting.values() for events in calls.values() for event in events]
