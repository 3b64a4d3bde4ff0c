"""Curves as text show the values, and nothing where there is none."""

from agentrl.run.chart import BLOCKS, curve, sparkline


def test_a_sparkline_has_a_character_a_value_and_a_gap_for_the_unknown() -> None:
    assert sparkline([0.0, None, 0.5, 1.0]) == "▁ ▅█"
    assert sparkline([0.0, 5.0, 10.0], 0.0, 10.0) == "▁▅█"
    assert sparkline([-3.0, 3.0]) == "▁█"
    assert sparkline([]) == ""


def test_a_curve_rises_with_its_values() -> None:
    text = curve([(step, step / 10) for step in range(11)], width=11, height=10)
    rows = text.splitlines()
    plot = [row[6:].ljust(11) for row in rows[:10]]
    heights = [sum(row[column] in BLOCKS for row in plot) for column in range(11)]
    assert heights == list(range(11))
    assert rows[0].startswith(" 1.0 ┤")
    assert rows[9].startswith(" 0.0 ┤")
    assert rows[-1].split() == ["0", "10", "step"]


def test_marks_stand_at_their_height_and_unknown_columns_stay_empty() -> None:
    text = curve([(0, None), (1, 1.0)], [(0, 0.0), (1, 1.0)], height=4)
    plot = [row[6:] for row in text.splitlines()[:4]]
    assert plot == [" ◆", " █", " █", "◆█"]


def test_steps_that_share_a_column_are_averaged() -> None:
    text = curve([(step, float(step % 2)) for step in range(100)], width=10, height=2)
    assert text.splitlines()[1][6:] == "█" * 10
    assert text.splitlines()[0][6:].strip() == ""


def test_nothing_to_show_is_said() -> None:
    assert curve([]) == "no steps yet"
