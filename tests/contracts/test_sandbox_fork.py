"""What every registered sandbox promises of snapshots: it has them, or says that it has none."""

from typing import Any

import pytest

from agentrl.errors import SandboxError
from tests.contracts.boxes import every_sandbox, folders, play, task

pytestmark = every_sandbox


def test_a_box_from_a_snapshot_begins_there_and_goes_its_own_way(opener: Any) -> None:
    async def act(box: Any) -> None:
        if not hasattr(box, "snapshot"):
            with pytest.raises(SandboxError, match="snapshot"):
                async with opener(task(), "any"):
                    raise AssertionError("opened")
            return
        await box.exec(["sh", "-c", "rm gone; echo 1 >n; mkdir d"])
        if hasattr(box, "shell"):
            await box.shell("cd d; export A=1")
        name = await box.snapshot()
        async with opener(task(gone=b"g"), name) as fork:
            await box.exec(["sh", "-c", "echo main >n"])
            assert (
                await fork.exec(["sh", "-c", "ls; cat n; echo fork >f"])
            ).out.text == "d\nn\n1\n"
            if hasattr(fork, "shell"):
                assert (await fork.shell('basename "$PWD"; echo $A')).out.text == "d\n1\n"
                assert (await box.shell('basename "$PWD"; echo $A')).out.text == "d\n1\n"
        assert (await box.exec(["sh", "-c", "ls; cat n"])).out.text == "d\nn\nmain\n"

    play(opener, act, task(gone=b"g"))
    assert folders() == []
