"""What every generated task promises, whatever its domain."""

import json

from agentrl.task import Task


def check_shape(task: Task, domain: str, context_tokens: int) -> None:
    meta = task.meta
    assert task.id == f"{domain}/{task.family}/{task.difficulty}/{meta['split']}-{meta['seed']:06d}"
    assert task.suite == task.env == domain
    assert [call.id for call in task.oracle] == [f"c{i}.0" for i in range(len(task.oracle))]
    assert task.oracle[-1].name == "submit"
    assert "submit" not in [call.name for call in task.oracle[:-1]]
    assert 1 <= len(task.oracle) - 1 <= 5, task.id
    assert task.limits.steps == max(6, len(task.oracle) + 4)
    assert (task.limits.reply_tokens, task.limits.context_tokens) == (96, context_tokens)
    words = len(task.instruction.split())
    assert 10 <= words <= 40, f"{task.id}: {words} words"
    for call in task.oracle:
        assert len(json.dumps(call.arguments)) <= 160, f"{task.id}: {call.arguments}"
    assert "{" not in task.instruction
    assert len(meta["values"]) == len(set(meta["values"]))
