"""What a family writes down about one task, and how that becomes a `Task` judged by its files."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from agentrl.errors import ConfigError
from agentrl.generate.base import DIFFICULTIES, Split
from agentrl.generate.values import Values, quoted
from agentrl.messages import ToolCall
from agentrl.task import Limits, Task

Call = tuple[str, dict[str, Any]]


class Scene(Struct, frozen=True):
    """A world before and after, what is asked, and calls (without `submit`) that get there."""

    instruction: str
    before: dict[str, str | bytes]
    after: dict[str, str | bytes]
    calls: list[Call]


def lines(*texts: object) -> str:
    """File content with one text a line: `lines("a", 7)` is `"a\\n7\\n"`."""
    return "".join(f"{text}\n" for text in texts)


def sentence(*clauses: str) -> str:
    """Clauses in order as one sentence."""
    text = ", then ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def closed(instruction: str) -> str:
    """A very short instruction also says how to end, which evens out the lengths."""
    return instruction if len(instruction.split()) >= 10 else f"{instruction} Submit when done."


def to_bytes(files: dict[str, str | bytes]) -> dict[str, bytes]:
    return {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}


def oracle_calls(calls: list[Call]) -> tuple[ToolCall, ...]:
    """Calls with ids `c0.0`, `c1.0`, …, one a step, closed by `submit`."""
    closed = [*calls, ("submit", {})]
    return tuple(ToolCall(f"c{i}.0", name, args) for i, (name, args) in enumerate(closed))


def limits_for(oracle: tuple[ToolCall, ...], context_tokens: int) -> Limits:
    """A few steps more than the oracle needs."""
    return Limits(steps=max(6, len(oracle) + 4), context_tokens=context_tokens, reply_tokens=96)


def task_id(domain: str, family: str, difficulty: int, seed: int, split: Split) -> str:
    return f"{domain}/{family}/{difficulty}/{split}-{seed:06d}"


def meta_for(
    family: str, difficulty: int, seed: int, split: Split, values: Values
) -> dict[str, Any]:
    """`values` lists what was drawn, so that a ledger can compare the splits."""
    return {
        "family": family,
        "difficulty": difficulty,
        "seed": seed,
        "split": split,
        "values": sorted(values.used),
    }


def expected_state(before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
    """The state verifier's input. A file left alone must keep its bytes; one that was written or
    moved must hold the text, give or take white space at its end; nothing else may be there."""
    files: dict[str, dict[str, Any]] = {}
    for path, data in after.items():
        if before.get(path) == data:
            files[path] = {"sha256": hashlib.sha256(data).hexdigest()}
        else:
            files[path] = {"text": data.decode(), "strip": True}
    expected = {
        "files": files,
        "absent": sorted(before.keys() - after.keys()),
        "exact_tree": True,
        "allow": [],
    }
    return json.dumps(expected, sort_keys=True).encode()


def state_task(
    domain: str,
    scene: Scene,
    values: Values,
    *,
    family: str,
    difficulty: int,
    seed: int,
    split: Split,
) -> Task:
    """A task judged by what its workdir holds at the end."""
    before, after = to_bytes(scene.before), to_bytes(scene.after)
    oracle = oracle_calls(scene.calls)
    return Task(
        id=task_id(domain, family, difficulty, seed, split),
        suite=domain,
        instruction=quoted(closed(scene.instruction)),
        files=before,
        tests={"expected.json": expected_state(before, after)},
        oracle=oracle,
        env=domain,
        verifier="state",
        limits=limits_for(oracle, context_tokens=1_024),
        meta=meta_for(family, difficulty, seed, split, values),
    )


def make_state_task(
    domain: str,
    families: dict[str, Callable[[Values, int], Scene]],
    family: str,
    difficulty: int,
    seed: int,
    split: Split,
) -> Task:
    """Raises ConfigError for a family or difficulty there is not."""
    if family not in families or difficulty not in DIFFICULTIES:
        raise ConfigError(
            f"{domain} has no family {family!r} of difficulty {difficulty}",
            help=f"families: {', '.join(families)}; difficulties 1 to 5",
        )
    values = Values(f"{domain}/{family}/{difficulty}/{seed}", split)
    scene = families[family](values, difficulty)
    return state_task(
        domain, scene, values, family=family, difficulty=difficulty, seed=seed, split=split
    )
