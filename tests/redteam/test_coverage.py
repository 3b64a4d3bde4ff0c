"""No pattern is left out in silence, and the figures are counted as they are shown."""

from tests.redteam.coverage import CATALOGUE, NOT_APPLICABLE, PATTERNS, PLAYED_ELSEWHERE


def test_every_pattern_of_the_catalogue_is_played_or_has_its_reason() -> None:
    played = {pattern.id.rstrip("b") for pattern in PATTERNS} | PLAYED_ELSEWHERE.keys()
    assert played | NOT_APPLICABLE.keys() == set(CATALOGUE)
    assert not played & NOT_APPLICABLE.keys()
    assert all(len(reason.split()) > 5 for reason in NOT_APPLICABLE.values())


def test_patterns_have_names_of_their_own_and_controls_that_differ_from_the_exploit() -> None:
    assert len({pattern.id for pattern in PATTERNS}) == len(PATTERNS)
    for pattern in PATTERNS:
        assert pattern.exploit != pattern.control
        assert pattern.exploit != pattern.solve
