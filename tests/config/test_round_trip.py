"""What is written reads back the same."""

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.config import RunConfig, dump, load, toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXT,
)
VALUE = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
TABLE = st.dictionaries(
    TEXT, st.recursive(VALUE, lambda v: st.dictionaries(TEXT, v, max_size=3), max_leaves=8)
)


@given(TABLE)
def test_any_table_reads_back_the_same(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml.write(table)) == table


def test_what_is_not_known_is_left_out_and_tables_in_lists_are_kept() -> None:
    table = {"a": None, "b": [{"c": 1, "d": [True]}], "e": {}}
    assert tomllib.loads(toml.write(table)) == {"b": [{"c": 1, "d": [True]}], "e": {}}


COUNT = st.integers(2, 10**6)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "model": TEXT,
        "seed": st.integers(-(2**60), 2**60),
        "size": st.sampled_from(["tiny", "small", "full"]),
        "max_steps": st.integers(0, 10**6),
        "output": TEXT,
        "env": st.fixed_dictionaries(
            {},
            optional={
                "suite": TEXT,
                "difficulties": st.lists(st.integers(1, 5), min_size=1, max_size=5),
                "families": st.lists(TEXT, max_size=3),
            },
        ),
        "memory": st.fixed_dictionaries(
            {"type": st.just("truncate")}, optional={"keep_last": COUNT}
        ),
        "agent": st.fixed_dictionaries(
            {"temperature": st.floats(1e-6, 5.0), "top_p": st.floats(1e-3, 1.0)}
        ),
        "learner": st.fixed_dictionaries(
            {"lr": st.floats(1e-12, 1.0), "process": st.booleans(), "clip_low": st.floats(0, 0.5)}
        ),
        "scheduler": st.fixed_dictionaries(
            {"mode": st.sampled_from(["async", "sync"]), "group_size": COUNT}
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(TABLES, st.sampled_from([None, "terminal", "filesystem", "swe"]))
def test_a_dumped_configuration_loads_back_to_itself(
    table: dict[str, Any], preset: str | None
) -> None:
    with TemporaryDirectory() as name:
        file = Path(name) / "asked.toml"
        file.write_text(toml.write(table), encoding="utf-8")
        config = load(preset, [file]).config
        assert RunConfig.model_validate(config.model_dump()) == config
        again = Path(name) / "config.toml"
        again.write_text(dump(config), encoding="utf-8")
        assert load(files=[again]).config == config
        assert load(base=again).config == config
