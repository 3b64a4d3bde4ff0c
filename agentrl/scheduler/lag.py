"""How far behind the newest weights a trained token can be.

With `slots` groups alive at once, released only when weights trained on them are live, and
`groups_per_step` groups a step, a group is overtaken by at most `slots - 1` groups that were alive
when it started plus `window - 1` younger ones, so by at most
`(slots + window - 2) // groups_per_step` optimizer steps.
"""


def max_lag(slots: int, window: int, groups_per_step: int) -> int:
    """The most optimizer steps a trained token can be behind."""
    return (slots + window - 2) // groups_per_step
