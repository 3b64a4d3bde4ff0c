import pytest

from agentrl.credit.anchor import AnchorCredit
from agentrl.credit.mix import MixCredit
from agentrl.credit.outcome import OutcomeCredit
from agentrl.errors import ConfigError
from tests.credit.groups import group, plain, walk


def test_parts_add_up_by_weight() -> None:
    subject = group(walk("a", ["s0", "s1"], 1.0), walk("b", ["s0", "s1"], 0.0))
    mixed = MixCredit(
        ({"type": "outcome", "kind": "dr_grpo"}, {"type": "anchor", "weight": 0.5, "omega": 2.0})
    )
    first = OutcomeCredit("dr_grpo").assign(subject)
    second = AnchorCredit(omega=2.0).assign(subject)
    want = [
        [a + 0.5 * b for a, b in zip(x, y, strict=True)] for x, y in zip(first, second, strict=True)
    ]
    assert mixed.assign(subject) == want
    assert mixed.assign_tokens(subject) == [[[value] for value in row] for row in want]
    assert mixed.report(subject) == {
        f"anchor.{name}": value for name, value in AnchorCredit().report(subject).items()
    }


def test_a_part_that_goes_by_token_keeps_its_tokens() -> None:
    decaying = {"type": "outcome", "kind": "reinforce_pp", "discount": 0.5}
    mixed = MixCredit((decaying, {"type": "outcome"}))
    assert mixed.whiten
    assert mixed.assign_tokens(plain(1.0, tokens=[2])) == [[[0.5, 1.0]]]


def test_a_mix_within_a_mix_is_a_mix() -> None:
    inner = {"type": "mix", "weight": 2.0, "parts": [{"type": "outcome", "kind": "dr_grpo"}]}
    assert MixCredit((inner,)).assign(plain(1, 0)) == [[1.0], [-1.0]]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ((), "no schemes"),
        (({"weight": 1.0},), "names no scheme"),
        (({"type": "outcom"},), "no credit plug-in is named 'outcom'"),
        (({"type": "outcome", "knd": "rloo"},), "does not take `knd`"),
        (({"type": "outcome", "weight": "much"},), "must be a number"),
    ],
)
def test_a_part_that_cannot_be_is_named(parts, says) -> None:
    with pytest.raises(ConfigError, match=says):
        MixCredit(parts)


def test_the_parts_are_said_in_words() -> None:
    mixed = MixCredit(({"type": "outcome", "weight": 0.5}, {"type": "tree"}))
    assert mixed.describe().startswith("0.5 x (grpo: ")
    assert " + 1 x (vine: " in mixed.describe()
