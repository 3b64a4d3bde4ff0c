"""What a run is made of, as a person writes it: defaults, a preset, files and flags, laid over
one another, checked all at once, and written back so that it reads the same again."""

from agentrl.config.load import (
    ConfigErrors,
    Resolved,
    dump,
    flag_takes_value,
    load,
    preset_names,
)
from agentrl.config.parts import build_plugin, plugin_factory, plugin_kwargs
from agentrl.config.sections import RunConfig

__all__ = [
    "ConfigErrors",
    "Resolved",
    "RunConfig",
    "build_plugin",
    "dump",
    "flag_takes_value",
    "load",
    "plugin_factory",
    "plugin_kwargs",
    "preset_names",
]
