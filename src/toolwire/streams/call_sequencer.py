"""Write the calls of an answer one after the other, on a wire where the start of a call closes the call before.

Whether a call may run is known only at its end. A call that must not run has to be marked before the next call starts,
because clients of such a wire run a call as soon as the next one starts.
"""

from toolwire.types import CallDelta, CallEnd, CallStart, Event


class CallSequencer:
    """Reorders the events of calls: the events of a later call wait until the call before it has ended."""

    def __init__(self) -> None:
        self._choices: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._waiting: dict[int, dict[int, list[Event]]] = {}

    def feed(self, event: Event) -> list[Event]:
        """Add an event, and return the events that may be written now."""
        match event:
            case CallStart(key=key, choice=choice):
                self._choices[key] = choice
                if choice in self._open:
                    self._waiting.setdefault(choice, {})[key] = [event]
                    return []
                self._open[choice] = key
            case CallDelta(key=key) | CallEnd(key=key) if key in self._choices:
                return self._continue(event, key, self._choices[key])
        return [event]

    def _continue(self, event: Event, key: int, choice: int) -> list[Event]:
        """Continue or end the call of `key`. Its end releases the calls that waited for it."""
        waiting = self._waiting.get(choice, {})
        if key in waiting:
            waiting[key].append(event)
            return []
        if type(event) is not CallEnd:
            return [event]
        self._open.pop(choice, None)
        ready: list[Event] = [event]
        while waiting and choice not in self._open:
            key = next(iter(waiting))
            ready += (events := waiting.pop(key))
            if type(events[-1]) is not CallEnd:
                self._open[choice] = key
        return ready

    def flush(self) -> list[Event]:
        """Return all events that wait."""
        waiting, self._waiting, self._open = self._waiting, {}, {}
        return [event for calls in waiting.values() for events in calls.values() for event in events]
