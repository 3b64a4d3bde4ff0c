"""What to do about an episode the host broke: play it again, or leave it out of the count.

An episode the agent broke is never here: it was judged, with zero.
"""

from collections.abc import Mapping

AGAIN: Mapping[str, int] = {
    "SandboxError": 2,  # a box that did not open or died: usually passes
    "EngineError": 2,  # the policy could not be sampled
    "VerifierError": 1,  # the check broke by itself: once more tells a flaky one
    "TaskError": 0,  # the task's own files are wrong: they will be wrong again
}
"""Further tries by the class of the fault; a class that is not here gets one."""

PATIENCE = 8
"""So many episodes in a row without an answer from the policy, and the run stops."""


def again(fault: str, tries: int) -> bool:
    """Whether an episode broken by `fault` is played again after `tries` tries."""
    return tries <= AGAIN.get(fault, 1)
