import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.engine.torch.blocks import Pool, Sessions, chain, next_key, root_key

SIZE = 4


def test_chain_keys_differ_by_salt_weights_and_any_earlier_token() -> None:
    tokens = list(range(12))
    plain = chain(root_key("", "0"), tokens, SIZE)
    assert len(plain) == 3
    assert plain == chain(root_key("", "0"), [*tokens, 99], SIZE)
    others = [
        chain(root_key("a", "0"), tokens, SIZE),
        chain(root_key("", "1"), tokens, SIZE),
        chain(root_key("", "0"), [5, *tokens[1:]], SIZE),
    ]
    for other in others:
        assert not set(plain) & set(other)
    assert plain[1] == next_key(plain[0], tokens[4:8])


def test_the_least_recently_used_idle_block_is_evicted_first() -> None:
    pool = Pool(2)
    blocks = [pool.take(), pool.take()]
    for block, key in zip(blocks, (b"a", b"b"), strict=True):
        assert block is not None
        pool.name(block, key)
    assert pool.take() is None
    pool.release([blocks[0]])  # type: ignore[list-item]
    pool.release([blocks[1]])  # type: ignore[list-item]
    assert pool.take() == blocks[0]
    assert pool.find(b"a") is None
    assert pool.find(b"b") == blocks[1]
    assert pool.evictions == 1


def test_giving_back_twice_or_holding_a_free_block_is_an_error() -> None:
    pool = Pool(2)
    block = pool.take()
    assert block is not None
    pool.release([block])
    with pytest.raises(ValueError, match="not held"):
        pool.release([block])
    with pytest.raises(KeyError):
        pool.hold(block)


def test_a_session_gives_its_partial_tail_only_to_a_prompt_that_extends_it() -> None:
    pool = Pool(8)
    sessions = Sessions(pool, SIZE)
    root = root_key("", "0")

    def keep() -> None:
        table = [block for block in (pool.take() for _ in range(2)) if block is not None]
        sessions.keep("s", list(range(6)), table, root)

    keep()
    assert sessions.reusable("s", root, list(range(9))) == 6
    assert sessions.reusable("s", root, list(range(6))) == 4  # one token must be computed
    assert sessions.reusable("s", root, [0, 1, 2, 3, 4, 9, 9]) == 4
    assert sessions.reusable("s", root, [9, 1, 2]) == 0
    assert sessions.reusable("s", root_key("", "1"), list(range(9))) == 0
    assert len(sessions.claim("s", 4)) == 1
    assert pool.held == 1
    keep()
    sessions.drop_all()
    assert pool.held == 1


class Toy:
    """The life of a sequence as the batch leads it, with block contents written down."""

    def __init__(self, count: int) -> None:
        self.pool = Pool(count)
        self.sessions = Sessions(self.pool, SIZE)
        self.running: list[tuple[list[int], list[int], bytes]] = []
        self.content: dict[int, tuple[bytes, tuple[int, ...]]] = {}

    def start(self, tokens: list[int], root: bytes) -> None:
        keys = chain(root, tokens, SIZE)
        table: list[int] = []
        for index, key in enumerate(keys):
            block = self.pool.find(key)
            if block is None:
                break
            assert self.content[block] == (root, tuple(tokens[: (index + 1) * SIZE]))
            table.append(block)
        for block in table:
            self.pool.hold(block)
        found = len(table)
        for _ in range(-(-len(tokens) // SIZE) - found):
            block = self.pool.take()
            if block is None:
                self.pool.release(table)
                return
            assert all(block not in other for _, other, _ in self.running)
            table.append(block)
        for index in range(found, len(table)):
            self.content[table[index]] = (root, tuple(tokens[: (index + 1) * SIZE]))
            if index < len(keys):
                self.pool.name(table[index], keys[index])
        self.running.append((tokens, table, root))

    def references(self) -> int:
        return sum(self.pool.refs(block) for block in range(self.pool.count))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "keep", "drop", "forget", "flush", "oldest"]),
            st.lists(st.integers(0, 1), min_size=1, max_size=18),
            st.sampled_from(["", "salt"]),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
def test_references_never_leak_and_found_blocks_hold_exactly_what_was_asked_for(
    acts: list[tuple[str, list[int], str, int]],
) -> None:
    toy = Toy(9)
    for act, tokens, salt, pick in acts:
        if act == "start":
            toy.start(tokens, root_key(salt, "0"))
        elif act == "forget":
            toy.sessions.drop(str(pick))
        elif act == "oldest":
            toy.sessions.drop_oldest()
        elif act == "flush":
            toy.pool.forget_names()
        elif toy.running:
            held, table, root = toy.running.pop(pick % len(toy.running))
            if act == "keep":
                toy.sessions.keep(str(pick), held, table, root)
            else:
                toy.pool.release(table)
        running = sum(len(table) for _, table, _ in toy.running)
        kept = sum(len(k.table) for k in toy.sessions._kept.values())
        assert toy.references() == running + kept
        assert toy.pool.held + toy.pool.available == toy.pool.count
        assert toy.sessions.blocks <= toy.pool.held
    for _, table, _ in toy.running:
        toy.pool.release(table)
    toy.sessions.drop_all()
    assert toy.references() == 0
    assert toy.pool.available == toy.pool.count
