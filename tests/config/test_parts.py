"""Plug-ins are built from their section, with their own keys checked."""

import pytest

from agentrl.config import build_plugin, load, plugin_factory, plugin_kwargs
from agentrl.config.sections import MemorySection
from agentrl.errors import ConfigError
from agentrl.memory.full import KeepAll
from agentrl.memory.truncate import Truncate


def test_a_plugin_is_built_with_its_own_keys() -> None:
    section = load(flags=[("memory", "truncate"), ("memory.keep-last", "5")]).config.memory
    assert plugin_kwargs(section) == {"keep_last": 5}
    built = build_plugin("memory", section)
    assert isinstance(built, Truncate)
    assert vars(built) == vars(Truncate(keep_last=5))


def test_a_factory_builds_a_new_one_each_time_and_drops_what_is_not_taken() -> None:
    make = plugin_factory("memory", MemorySection(type="full"), given=("policy",))
    first, second = make(policy=object()), make(policy=object())
    assert isinstance(first, KeepAll)
    assert first is not second


def test_an_argument_the_harness_gives_cannot_be_set_by_a_key() -> None:
    section = MemorySection.model_validate({"type": "truncate", "keep_last": 3})
    with pytest.raises(ConfigError, match=r"unknown key `memory\.keep_last`"):
        plugin_factory("memory", section, given=("keep_last",))


def test_a_wrong_key_or_type_is_named_with_its_table() -> None:
    wrong = MemorySection.model_validate({"type": "truncate", "keep_lost": 3})
    with pytest.raises(ConfigError, match=r"`memory\.keep_lost`") as caught:
        build_plugin("memory", wrong)
    assert "`keep_last`" in caught.value.help
    typed = MemorySection.model_validate({"type": "truncate", "keep_last": "many"})
    with pytest.raises(ConfigError, match="got 'many'"):
        build_plugin("memory", typed)


def test_an_unknown_plugin_is_refused() -> None:
    with pytest.raises(ConfigError, match="no memory plug-in is named 'trunkate'"):
        build_plugin("memory", MemorySection(type="trunkate"))
