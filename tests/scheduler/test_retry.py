"""A passing fault gets another try, a lasting one does not, and none gets them for ever."""

import pytest

from agentrl.scheduler.retry import AGAIN, again


@pytest.mark.parametrize("fault", [*AGAIN, "SomethingNew", ""])
def test_every_class_of_fault_ends_after_its_tries(fault: str) -> None:
    tries = 1
    while again(fault, tries):
        tries += 1
    assert tries == 1 + AGAIN.get(fault, 1)


def test_a_broken_task_is_not_played_again() -> None:
    assert not again("TaskError", 1)
    assert again("SandboxError", 1)
