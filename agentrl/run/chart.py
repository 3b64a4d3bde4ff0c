"""Curves as text, for a terminal and a README."""

from collections.abc import Callable, Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float = 0.0, high: float = 1.0) -> str:
    """One character a value; a value that is not known is a space, never the lowest bar."""
    return "".join(" " if value is None else _block(value, low, high) for value in values)


def _block(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.0
    return BLOCKS[min(max(int(share * len(BLOCKS)), 0), len(BLOCKS) - 1)]


def curve(
    points: Sequence[tuple[int, float | None]],
    marks: Sequence[tuple[int, float]] = (),
    width: int = 60,
    height: int = 8,
) -> str:
    """A block plot over steps, from 0 to 1: bars for `points`, ◆ for `marks`.

    Steps that share a column are averaged; a column without a known value stays empty.
    """
    steps = [step for step, _ in points] + [step for step, _ in marks]
    if not steps:
        return "no steps yet"
    first, last = min(steps), max(steps)
    columns = min(width, last - first + 1)

    def column(step: int) -> int:
        return (step - first) * columns // (last - first + 1)

    grid = [[" "] * columns for _ in range(height)]
    for at, value in enumerate(_means(points, columns, column)):
        if value is not None:
            for row in range(height):
                grid[row][at] = _cell(value * height - (height - 1 - row))
    for step, value in marks:
        row = height - 1 - min(int(value * height), height - 1)
        grid[row][column(step)] = "◆"
    label = {0: "1.0", height // 2: "0.5", height - 1: "0.0"}
    lines = [f"{label.get(i, ''):>4} ┤{''.join(row)}".rstrip() for i, row in enumerate(grid)]
    foot = f"     └{'─' * columns}"
    scale = f"      {first}{str(last).rjust(max(columns - len(str(first)), 1))} step"
    return "\n".join([*lines, foot, scale])


def _means(
    points: Sequence[tuple[int, float | None]], columns: int, column: Callable[[int], int]
) -> list[float | None]:
    held: list[list[float]] = [[] for _ in range(columns)]
    for step, value in points:
        if value is not None:
            held[column(step)].append(value)
    return [sum(values) / len(values) if values else None for values in held]


def _cell(filled: float) -> str:
    """The character of a cell filled by this share: under 0 empty, from 1 full."""
    if filled >= 1.0:
        return "█"
    eighths = int(filled * 8)
    return BLOCKS[eighths - 1] if eighths > 0 else " "
