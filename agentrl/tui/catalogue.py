"""The episodes of a run as a table that is only ordered, never loaded: places into columns."""

from typing import Any

import numpy as np

from agentrl.tui.where import Columns, Search, matching

SORTS = ("opened", "reward", "advantage", "steps", "seconds", "step", "stop", "task", "malformed")
"""What `s` walks through. `opened` is the order in which they were opened."""

GROUPS = ("", "group", "task", "step", "stop", "flags")
"""What `u` walks through: rows with the same value stand together, in order of first opening."""

_COLUMN = {"opened": "opened_at", "step": "trained_step", "seconds": "stopped_at"}


def ordered(
    columns: Columns,
    sort: str = "opened",
    *,
    falling: bool = False,
    group: str = "",
    where: str = "",
    search: Search = lambda text: set(),
) -> Any:
    """Places [M] of the episodes to show, in order. What is not known always stands last."""
    count = len(columns["episode"])
    places = np.flatnonzero(matching(where, columns, search)) if where else np.arange(count)
    values = _values(columns, sort)[places]
    known = ~_unknown(values)
    order = np.argsort(values[known], kind="stable")
    if falling:
        order = order[::-1]
    places = np.concatenate([places[known][order], places[~known]])
    return _together(places, _values(columns, group)[places]) if group else places


def counts(columns: Columns, places: Any) -> dict[str, int]:
    """Of these episodes: how many, groups, solved, masked, still played."""
    outcome = columns["outcome"][places]
    return {
        "episodes": len(places),
        "groups": len(set(columns["group"][places])),
        "solved": int(np.sum(columns["success"][places])),
        "masked": int(np.sum((outcome != "reward") & ~_unknown(outcome))),
        "playing": int(np.sum(_unknown(columns["stop"][places]))),
    }


def siblings(columns: Columns, place: int) -> list[int]:
    """Places of the episodes of one group, in order of opening, branches left out."""
    same = np.flatnonzero(columns["group"] == columns["group"][place])
    return [int(other) for other in same if columns["parent"][other] is None or other == place]


def flat_groups(columns: Columns) -> set[str]:
    """Groups of two or more judged tries that all got the same reward: they teach nothing."""
    first: dict[str, float] = {}
    varied: set[str] = set()
    again: set[str] = set()
    for group, reward in zip(columns["group"].tolist(), columns["reward"].tolist(), strict=True):
        if reward != reward:  # NaN: never judged
            continue
        known = first.get(group)
        if known is None:
            first[group] = reward
        elif known == reward:
            again.add(group)
        else:
            varied.add(group)
    return again - varied


def _values(columns: Columns, name: str) -> Any:
    if name == "seconds":
        ended = columns["stopped_at"]
        return np.where(ended > 0, ended - columns["opened_at"], np.nan)
    return columns[_COLUMN.get(name, name)]


def _unknown(values: Any) -> Any:
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


def _together(places: Any, values: Any) -> Any:
    """Stable: groups in order of their first row."""
    first: dict[Any, int] = {}
    keys = [first.setdefault(value if value == value else None, len(first)) for value in values]
    return places[np.argsort(np.array(keys, dtype=np.int64), kind="stable")]
