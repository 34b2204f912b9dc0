"""Draws docs/rooms.svg from the imports: one row a layer, and a line wherever one room needs another.

An import that follows from others (a needs b, b needs c, so a may need c) is left out, or nothing could be seen.
"""

from __future__ import annotations

import sys
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "rooms.svg"
WIDTH, ROW, BOX_HEIGHT, LETTER, MARGIN = 880, 62, 30, 7.4, 14


def layers() -> list[list[str]]:
    """The rows of pyproject.toml, without rooms that do not exist yet."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    [contract] = (item for item in project["tool"]["importlinter"]["contracts"] if item["id"] == "layers")
    rows = [[name.strip().strip("()") for name in row.split("|")] for row in contract["layers"]]
    rooms = ROOT / "src" / "kontobahn"
    existing = [[name for name in row if (rooms / name).is_dir() or (rooms / f"{name}.py").exists()] for row in rows]
    return [row for row in existing if row]


def needs() -> dict[str, set[str]]:
    """The rooms that each room imports from."""
    graph = grimp.build_graph("kontobahn")
    found: dict[str, set[str]] = {}
    for module in graph.modules - {"kontobahn"}:
        room = module.split(".")[1]
        for imported in graph.find_modules_directly_imported_by(module):
            other = imported.partition(".")[2].split(".")[0]
            if other and other != room:
                found.setdefault(room, set()).add(other)
    return found


def reduced(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The edges that do not follow from longer ways."""

    def reach(room: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*edges.get(room, ())]
        while waiting:
            here = waiting.pop()
            if here not in seen:
                seen.add(here)
                waiting += edges.get(here, ())
        return seen

    return sorted(
        (room, other)
        for room, others in edges.items()
        for other in others
        if not any(other in reach(between) for between in others - {other})
    )


def draw() -> str:
    places: dict[str, tuple[int, int, int]] = {}
    for number, row in enumerate(layers()):
        # Whole numbers: a half is rounded one way or the other by versions of Python that add floats up differently.
        widths = [round(len(name) * LETTER) + 2 * MARGIN for name in row]
        space = (WIDTH - sum(widths)) // (len(row) + 1)
        left = space
        for name, width in zip(row, widths, strict=True):
            places[name] = (left, 10 + number * ROW, width)
            left += width + space
    height = 10 + len(layers()) * ROW
    lines = [_line(places[room], places[other]) for room, other in reduced(needs()) if room in places]
    boxes = [_box(name, place) for name, place in sorted(places.items())]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="The rooms and what they import">',
        "<style>text{font:13px ui-monospace,monospace;fill:#1d2b24}rect{fill:#eef6f1;stroke:#2f7d55}path{fill:none;stroke:#8fb3a0}"
        "@media(prefers-color-scheme:dark){text{fill:#e6efe9}rect{fill:#1c2a23;stroke:#63b58a}path{stroke:#4b6f5d}}</style>",
        *lines,
        *boxes,
        "</svg>\n",
    ])  # fmt: skip


def _box(name: str, place: tuple[int, int, int]) -> str:
    left, top, width = place
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{BOX_HEIGHT}" rx="6"/>'
        f'<text x="{left + width // 2}" y="{top + 20}" text-anchor="middle">{escape(name)}</text>'
    )


def _line(upper: tuple[int, int, int], lower: tuple[int, int, int]) -> str:
    x1, y1 = upper[0] + upper[2] // 2, upper[1] + BOX_HEIGHT
    x2, y2 = lower[0] + lower[2] // 2, lower[1]
    bend = (y2 - y1) // 2
    return f'<path d="M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)} is up to date.\n")
