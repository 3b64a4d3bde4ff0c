"""Who owns which KV block. Bookkeeping only: no torch, no memory.

A block holds the keys and values of `size` consecutive tokens. Full blocks are known by a chain
hash of everything before and in them, so two sequences share one only if salt, weights and every
token up to its end are equal. Nobody writes into a block that others can find or hold.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct


def root_key(salt: str, weights: str) -> bytes:
    """Start of a chain; `weights` names the parameters the values were computed with."""
    return blake2b(f"{len(salt)}:{salt}:{weights}".encode(), digest_size=16).digest()


def next_key(parent: bytes, tokens: Sequence[int]) -> bytes:
    """Key of the block that follows `parent` and holds `tokens`."""
    return blake2b(parent + array("q", tokens).tobytes(), digest_size=16).digest()


def chain(root: bytes, tokens: Sequence[int], size: int) -> list[bytes]:
    """Keys of all full blocks of `tokens`."""
    keys: list[bytes] = []
    parent = root
    for start in range(0, len(tokens) - size + 1, size):
        parent = next_key(parent, tokens[start : start + size])
        keys.append(parent)
    return keys


class Pool:
    """Counts references to `count` blocks and finds full ones by key.

    A block is free, held (references > 0) or idle: unreferenced, but kept under its key until its
    room is needed, least recently used first.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.evictions = 0
        self._free = list(range(count - 1, -1, -1))
        self._refs = [0] * count
        self._key: list[bytes | None] = [None] * count
        self._by_key: dict[bytes, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Blocks `take` can still give."""
        return len(self._free) + len(self._idle)

    @property
    def held(self) -> int:
        return self.count - self.available

    def refs(self, block: int) -> int:
        return self._refs[block]

    def take(self) -> int | None:
        """A block of one's own (one reference); evicts an idle one if it must, else None."""
        if self._free:
            block = self._free.pop()
        elif self._idle:
            block, _ = self._idle.popitem(last=False)
            self._unname(block)
            self.evictions += 1
        else:
            return None
        self._refs[block] = 1
        return block

    def find(self, key: bytes) -> int | None:
        return self._by_key.get(key)

    def hold(self, block: int) -> None:
        """One more reference to a block that is held or idle."""
        if self._refs[block] == 0:
            del self._idle[block]  # KeyError: a free block cannot be held
        self._refs[block] += 1

    def name(self, block: int, key: bytes) -> None:
        """Makes a held, full block findable. An equal block known already keeps the name."""
        if self._refs[block] <= 0:
            raise ValueError(f"block {block} is not held")
        if key not in self._by_key and self._key[block] is None:
            self._by_key[key] = block
            self._key[block] = key

    def release(self, table: Sequence[int]) -> None:
        """Gives back one reference each; the last blocks of a table are evicted first."""
        for block in reversed(table):
            if self._refs[block] <= 0:
                raise ValueError(f"block {block} is not held")
            self._refs[block] -= 1
            if self._refs[block] == 0:
                if self._key[block] is None:
                    self._free.append(block)
                else:
                    self._idle[block] = None

    def forget_names(self) -> None:
        """No block can be found from now on; idle ones become free."""
        for block in list(self._by_key.values()):
            self._key[block] = None
        self._by_key.clear()
        self._free.extend(sorted(self._idle, reverse=True))
        self._idle.clear()

    def _unname(self, block: int) -> None:
        key = self._key[block]
        if key is not None:
            del self._by_key[key]
            self._key[block] = None


class Kept(Struct):
    """What a session holds between turns: tokens whose KV lies in `table`, tail included."""

    tokens: list[int]
    table: list[int]
    root: bytes


class Sessions:
    """Tables kept between turns, least recently used first. Each holds its blocks' references."""

    def __init__(self, pool: Pool, size: int) -> None:
        self._pool = pool
        self._size = size
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def blocks(self) -> int:
        """Blocks that dropping every session would make available (shared ones count once)."""
        holders: dict[int, int] = {}
        for kept in self._kept.values():
            for block in kept.table:
                holders[block] = holders.get(block, 0) + 1
        return sum(self._pool.refs(block) == count for block, count in holders.items())

    def keep(self, session: str, tokens: list[int], table: list[int], root: bytes) -> None:
        """Takes over the references in `table`; an older table of the session is dropped."""
        self.drop(session)
        self._kept[session] = Kept(tokens, table, root)

    def reusable(self, session: str, root: bytes, prompt: Sequence[int]) -> int:
        """How many leading tokens of `prompt` the session's table holds; always < len(prompt)."""
        kept = self._kept.get(session)
        if kept is None or kept.root != root:
            return 0
        count = len(kept.tokens)
        if count < len(prompt) and kept.tokens == list(prompt[:count]):
            return count
        same = 0
        for same, (ours, theirs) in enumerate(zip(kept.tokens, prompt, strict=False)):  # noqa: B007
            if ours != theirs:
                break
        else:
            same = min(count, len(prompt) - 1)
        return min(same, len(prompt) - 1) // self._size * self._size

    def claim(self, session: str, count: int) -> list[int]:
        """Hands over the first `count` tokens' blocks; the rest of the table is released."""
        kept = self._kept.pop(session)
        cut = -(-count // self._size)
        self._pool.release(kept.table[cut:])
        return kept.table[:cut]

    def drop(self, session: str) -> None:
        kept = self._kept.pop(session, None)
        if kept is not None:
            self._pool.release(kept.table)

    def drop_oldest(self) -> bool:
        """Releases the least recently used table. False where there is none."""
        if not self._kept:
            return False
        _, kept = self._kept.popitem(last=False)
        self._pool.release(kept.table)
        return True

    def drop_all(self) -> None:
        while self.drop_oldest():
            pass
