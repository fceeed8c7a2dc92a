"""Lineage as SVG: layers from left to right, inputs on the left of what reads them. No script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _PAD = 190, 40, 70, 18, 10
#: Of the longest name that fits into a box; a longer one is cut.
_LETTERS = 23


def lineage_svg(
    kinds: Mapping[str, str],
    edges: Iterable[tuple[str, str]],
    links: Mapping[str, str],
    chosen: str | None = None,
) -> str:
    """`kinds`: by name, in the order in which they are drawn. `edges`: (read, reader). `chosen`: drawn in bold."""
    edges = [(a, b) for a, b in edges if a in kinds and b in kinds]
    columns = _layers(list(kinds), edges)
    places = {
        name: (_PAD + x * (_WIDTH + _ACROSS), _PAD + y * (_HEIGHT + _DOWN))
        for x, names in enumerate(columns)
        for y, name in enumerate(names)
    }
    width = 2 * _PAD + len(columns) * (_WIDTH + _ACROSS) - _ACROSS
    height = 2 * _PAD + max(map(len, columns), default=0) * (_HEIGHT + _DOWN) - _DOWN
    drawn = [_edge(places[a], places[b]) for a, b in edges]
    drawn += [
        _node(name, kind, *places[name], links.get(name), name == chosen) for name, kind in kinds.items()
    ]
    return (
        f'<svg class="lineage" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="lineage">{"".join(drawn)}</svg>'
    )


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Each name as far to the right as its longest chain of inputs; in a layer, in the order of their inputs."""
    inputs: dict[str, list[str]] = {name: [] for name in names}
    for read, reader in edges:
        inputs[reader].append(read)
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((of(one) for one in inputs[name]), default=-1)
        return depth[name]

    layers: list[list[str]] = [[] for _ in range(1 + max(map(of, names), default=-1))]
    for name in names:
        layers[depth[name]].append(name)
    height: dict[str, float] = {}
    for layer in layers:
        middle = {n: sum(height[i] for i in inputs[n]) / len(inputs[n]) for n in layer if inputs[n]}
        layer.sort(key=lambda n: middle.get(n, 0.0))
        height |= {name: float(y) for y, name in enumerate(layer)}
    return layers


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    x2, y2 = end[0], end[1] + _HEIGHT // 2
    bend = (x2 - x1) // 2
    return f'<path class="edge" d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _node(name: str, kind: str, x: int, y: int, link: str | None, chosen: bool) -> str:
    shown = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
    css = f"node {kind}" + (" chosen" if chosen else "")
    box = (
        f'<g class="{css}"><title>{escape(name)}: {escape(kind)}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + 12}" y="{y + 17}">{escape(shown)}</text>'
        f'<text class="kind" x="{x + 12}" y="{y + 32}">{escape(kind)}</text></g>'
    )
    return f'<a href="{escape(link)}">{box}</a>' if link is not None else box
