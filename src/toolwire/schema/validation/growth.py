"""How much work a schema may make of one value: loops are refused, and what multiplies is counted.

Rules of this file:
- A reference that leads back to itself must have gone into the value: else nothing would ever be decided.
- What is not recursive is counted as written out. What is recursive is decided once for each part of a value;
  there, what multiplies is what stands side by side (`allOf`, `anyOf`, ...), and it counts by its square.
"""

from collections import Counter
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import measure
from toolwire.schema.validation.places import ONLY_REFERRED, SAME_VALUE, Resources, Subschema, held, places

MAX_COST = 300_000
PUBLISHED_COST = 500
PUBLISHED = ("https://json-schema.org/draft/", "http://json-schema.org/draft-0")

Edges = dict[int, list[int]]


class Graph:
    """The subschemas of a schema, and which of them each asks: about the same value, and at all."""

    __slots__ = ("asked", "own", "places", "same")

    def __init__(self, root: Subschema, resources: Resources) -> None:
        self.places: dict[int, Subschema] = {}
        self.own: Counter[int] = Counter()
        self.asked: Edges = {}
        self.same: Edges = {}
        waiting = list(places(root))
        while waiting:
            place = waiting.pop()
            if id(place.node) not in self.places and type(place.node) is dict:
                waiting += self._enter(place, resources)

    def _enter(self, place: Subschema, resources: Resources) -> list[Subschema]:
        """Enter a subschema; give those that it refers to, which may stand where nobody looks for one."""
        here, asked, same = id(place.node), [], []
        self.places[here] = place
        self.own[here] = 1 + len(place.node)
        for keyword in place.node.keys() & {"enum", "const"}:
            self.own[here] += measure(place.node[keyword])
        for keyword, below in held(place):
            if type(below.node) is dict and keyword not in ONLY_REFERRED:
                asked.append(id(below.node))
                if keyword in SAME_VALUE:
                    same.append(id(below.node))
        referred = []
        for keyword, ref, meant in resources.meant(place):
            if not meant:
                self.own[here] += _published(ref, keyword, place)
            referred += [other for other in meant if type(other.node) is dict]
        targets = [id(other.node) for other in referred]
        self.asked[here], self.same[here] = asked + targets, same + targets
        return referred


def _published(ref: str, keyword: str, place: Subschema) -> int:
    """Say what a reference costs that the library knows by itself; refuse any other."""
    if ref.startswith(PUBLISHED):
        return PUBLISHED_COST
    where = f"{place.path}.{keyword}" if place.path else keyword
    if ref.startswith("#"):
        raise InvalidSchema(f"{ref!r} points to no schema in this document", path=where)
    raise InvalidSchema(
        f"{ref!r} points outside of the schema, and nothing is fetched; move what it names into $defs",
        path=where,
    )


def cost(root: Subschema, resources: Resources) -> int:
    """Count the work for each part of a value; refuse what never ends, and what would take too long."""
    if type(root.node) is not dict:
        return 1
    graph = Graph(root, resources)
    side_by_side = _side_by_side(graph)
    total: dict[int, int] = {}
    for members in _components(graph.asked):
        inside = set(members)
        spent = 0
        for member in members:
            spent += graph.own[member]
            spent += sum(total[other] for other in graph.asked[member] if other not in inside)
        if len(members) > 1 or members[0] in graph.asked[members[0]]:
            spent += max(side_by_side[member] for member in members) ** 2
        if spent > MAX_COST:
            raise InvalidSchema(
                f"the schema multiplies: more than {MAX_COST:,} steps for one value, once what it refers to"
                " is written out",
                path=graph.places[members[0]].path,
            )
        total.update(dict.fromkeys(members, spent))
    return total[id(root.node)]


def _side_by_side(graph: Graph) -> dict[int, int]:
    """Count the subschemas that are asked about the same value, each time that one is."""
    counts: dict[int, int] = {}
    try:
        order = list(TopologicalSorter({here: set(same) for here, same in graph.same.items()}).static_order())
    except CycleError as found:
        *route, _ = found.args[1]
        names = [f"#{graph.places[step].pointer}" for step in reversed(route)]
        place = graph.places[route[-1]]
        raise SchemaRecursive(
            f"a reference leads back to itself without going into the value ({' -> '.join(names)}); "
            "a cycle needs a property or an item in between",
            path=place.path,
        ) from None
    for here in order:
        counts[here] = min(1 + sum(counts[other] for other in graph.same[here]), MAX_COST)
    return counts


def _components(edges: Edges) -> Iterable[list[int]]:
    """Give the sets of nodes that lead to each other, each after those that it leads to."""
    order = _finished(edges, edges)
    backwards: Edges = {here: [] for here in edges}
    for here, others in edges.items():
        for other in others:
            backwards[other].append(here)
    seen: set[int] = set()
    found = [_finished(backwards, [start], seen) for start in reversed(order) if start not in seen]
    return reversed(found)


def _finished(edges: Edges, starts: Iterable[int], seen: set[int] | None = None) -> list[int]:
    """Walk from some nodes in depth; give what was reached, each node after those that it leads to."""
    seen = set() if seen is None else seen
    order = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        trail = [(start, iter(edges[start]))]
        while trail:
            here, rest = trail[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    trail.append((other, iter(edges[other])))
                    break
            else:
                order.append(here)
                trail.pop()
    return order
