"""Drills: what is answered stands above it, and no held-out value is ever shown."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentrl.generate.drills import drill
from agentrl.generate.values import split_of

SEEDS = st.integers(0, 1 << 40)


@given(SEEDS)
def test_every_answer_is_to_be_taken_over_from_what_stands_above(seed: int) -> None:
    one = drill(seed)
    assert one.answer
    for answer in one.answer:
        above = f"{one.asked}\n{one.seen}"
        folder, _, name = answer.rpartition("/")
        assert answer in above or (folder in one.asked and name in one.seen)


@given(SEEDS)
def test_the_same_seed_gives_the_same_drill(seed: int) -> None:
    assert drill(seed) == drill(seed)


@given(SEEDS)
def test_filtered_drills_pick_all_lines_that_end_as_asked_and_no_other(seed: int) -> None:
    one = drill(seed)
    ending = re.search(r"(?:^| )(\.[a-z]{2,3})$", one.asked)
    if ending is None or not one.seen:
        return
    wanted = [line for line in one.seen.split("\n") if line.endswith(ending[1])]
    assert [answer.rpartition("/")[2] for answer in one.answer] == wanted


def test_only_training_values_are_shown() -> None:
    plain = {
        a for s in range(2000) for a in drill(s).answer if re.fullmatch(r"\d+|[a-z]+(_[a-z]+)?", a)
    }
    assert len(plain) > 1000
    assert {split_of(value) for value in plain} == {"train"}
