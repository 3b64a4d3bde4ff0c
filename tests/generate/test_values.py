import keyword
import sys

import pytest

from agentrl.generate.values import WORDS, Values, split_of


def drawn(seed: int, split: str) -> list[str]:
    values = Values(seed, split)
    for _ in range(3):
        values.word(), values.name(), values.number(), values.identifier(), values.text()
    values.file()
    return values.used


def test_the_same_seed_draws_the_same_values():
    assert drawn(3, "train") == drawn(3, "train")
    assert drawn(3, "train") != drawn(4, "train")
    assert drawn(7, "held_out")[:4] == PINNED


PINNED = ["wolf", "raven_igloo", "163", "pine_bamboo"]


def test_no_value_is_drawn_by_both_splits():
    train = {value for seed in range(400) for value in drawn(seed, "train")}
    held = {value for seed in range(400) for value in drawn(seed, "held_out")}
    assert not train & held
    assert {split_of(v) for v in train} == {"train"}
    assert {split_of(v) for v in held} == {"held_out"}
    assert len(held) > 1_000


def test_no_value_lies_inside_another_of_the_same_task():
    for seed in range(100):
        used = drawn(seed, "train")
        assert not [(a, b) for a in used for b in used if a is not b and a in b]


def test_words_are_safe_as_module_file_and_function_names():
    assert len(WORDS) == len(set(WORDS)) >= 100
    for word in WORDS:
        assert word.isalpha()
        assert word.islower()
        assert not keyword.iskeyword(word)
        assert word not in sys.stdlib_module_names


def test_running_out_of_values_is_an_error_and_not_a_loop():
    values = Values(0, "held_out")
    with pytest.raises(ValueError, match="no held_out value is left"):
        [values.word() for _ in WORDS]
