"""What boxes stand on: frozen layers they share, and one writable folder each."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from agentrl.envs.sandboxes.files import Folder
from agentrl.errors import SandboxError

DEPTH = 240
"""Layers a box may stand on. The kernel takes 500, their names must fit in a page, and reading what
is left of a box takes three descriptors for each."""
_numbers = count(1)


class Layer:
    """A folder nobody writes to any more; it is removed with the last box or snapshot on it."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.uses = 0


Layers = tuple[Layer, ...]
"""Uppermost first; below the last lies the base."""


def hold(layers: Layers) -> None:
    for layer in layers:
        layer.uses += 1


def drop(layers: Layers) -> None:
    for layer in layers:
        layer.uses -= 1
        if not layer.uses:
            layer.folder.remove()


class Ground:
    """What one box stands on. `below` are frozen layers, `folder` takes what it writes."""

    def __init__(self, folder: Folder, below: Layers = ()) -> None:
        self.folder = folder
        self.below = below
        self._frozen: list[Layer] = []
        hold(below)

    @property
    def uppers(self) -> list[Path]:
        """The frozen layers as a mount names them."""
        return [layer.folder.path / "upper" for layer in self.below]

    def rise(self, folder: Folder) -> None:
        """The box has moved to `folder`: what it wrote before is frozen below it."""
        layer = Layer(self.folder)
        self._frozen.append(layer)
        self.folder = folder
        hold((layer,))
        self.below = (layer, *self.below)

    def leave(self) -> bool:
        """The box has ended. Whether anything it wrote is still held by others."""
        self.folder.remove()
        drop(self.below)
        return any(layer.uses for layer in self._frozen)


class Snapshot:
    """Layers, and a script that brings a shell to where its box's was; empty if it had none."""

    def __init__(self, layers: Layers, shell: str) -> None:
        self.layers = layers
        self.shell = shell
        self.holders = 0


class Shelf:
    """The snapshots of one opener, each until nobody holds it."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}

    def add(self, layers: Layers, shell: str) -> str:
        """The name of a new snapshot, held once."""
        name = f"snapshot-{next(_numbers)}"
        self._snapshots[name] = Snapshot(layers, shell)
        hold(layers)
        self.hold(name)
        return name

    def find(self, name: str) -> Snapshot:
        """Raises SandboxError where there is none of that name (any more)."""
        found = self._snapshots.get(name)
        if found is None:
            raise SandboxError(
                f"there is no snapshot {name!r}",
                help="a snapshot ends with its box, unless it is kept: opener.keeping(snapshot)",
            )
        return found

    def hold(self, name: str) -> None:
        self.find(name).holders += 1

    def drop(self, name: str) -> None:
        found = self.find(name)
        found.holders -= 1
        if not found.holders:
            del self._snapshots[name]
            drop(found.layers)

    @contextmanager
    def keeping(self, name: str) -> Iterator[None]:
        self.hold(name)
        try:
            yield
        finally:
            self.drop(name)
