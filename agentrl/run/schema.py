"""What each verb's `--json` holds. Names are stable; `agentrl schema VERB` prints them."""

import argparse
import json

from agentrl.config.sections import RunConfig
from agentrl.errors import ConfigError

INTERVAL = "[low, high], 95 %"
MEASURED = {
    "success": "share of tasks with the full score, 0 to 1",
    "interval": INTERVAL,
    "tasks": "tasks played",
    "masked": "episodes the host broke, not counted",
}
TRAINED = {
    "run": "the run's id",
    "dir": "its folder",
    "state": "done, interrupted, terminated or failed",
    "step": "optimizer steps done",
    "of": "optimizer steps asked for",
    "before": dict(MEASURED),
    "after": dict(MEASURED),
    "wall_s": "seconds from start to end",
    "next": "commands to go on with",
}
RUN = {
    "id": "the run's id",
    "dir": "its folder",
    "state": "new, running, done, interrupted, terminated, failed or dead",
    "step": "optimizer steps done",
    "of": "optimizer steps asked for",
    "attempts": "how often it was started",
    "created": "seconds since the epoch",
    "updated": "seconds since the epoch",
    "command": "what was typed, a list of words",
    "why": "what ended it, empty where nothing is worth saying",
}
TASK = {
    "id": "the task's id",
    "suite": "suite it belongs to",
    "family": "kind of job",
    "difficulty": "1 to 5",
    "split": "train or held_out",
    "env": "plug-in that plays it",
    "verifier": "plug-in that judges it",
}
FIELDS: dict[str, dict[str, object]] = {
    "train": {**TRAINED},
    "resume": {**TRAINED},
    "eval": {
        **MEASURED,
        "episodes": "episodes played, tasks times tries",
        "checkpoint": "what was evaluated",
        "by_difficulty": "difficulty -> success",
        "by_family": "family -> success",
        "state": "done, interrupted or terminated",
        "next": "commands to go on with",
    },
    "replay": {
        "run": "the run's id",
        "dir": "its folder",
        "episodes": {
            "id": "the episode's id, as an address takes it",
            "group": "the group it was compared in",
            "task": "the task's id",
            "stop": "done, steps, context, reply, time or error; null while it is played",
            "success": "whether it got the full score",
            "reward": "null where it was never judged",
            "outcome": "reward, masked or invalid; null where it was never judged",
            "steps": "replies given",
            "segments": "token runs; more than one where the context was rewritten",
            "malformed": "calls that could not be read",
            "trained_step": "optimizer step that trained it, or null",
        },
        "episode": "with the address of one episode, instead of `episodes`: its whole record",
        "html": "with --html, instead of `episodes`: the page that was written",
    },
    "watch": {
        "run": "the run's id",
        "dir": "its folder",
        "state": "new, running, done, interrupted, terminated, failed or dead",
        "step": "optimizer steps measured",
        "of": "optimizer steps asked for",
        "reward": "mean over the judged episodes of the last step, or null",
        "reward_ci": INTERVAL,
        "heldout": "success when it was last measured, or null",
        "heldout_ci": INTERVAL,
        "heldout_step": "the step it was measured after, or null",
        "stats": "what the learner measured in the last step, name -> number or null",
        "use": "rollout, learn, handover: shares of the wall time of the last ten steps",
        "failures": "class -> episodes, of the last 256 that ended",
        "alerts": {
            "rule": "which rule fired",
            "level": "info, warn or error",
            "step": "when it fired",
            "text": "what it saw and what to do",
            "until": "the step that resolved it, or null",
        },
    },
    "tasks list": {"tasks": dict(TASK)},
    "tasks show": {
        **TASK,
        "instruction": "what the agent is told",
        "files": "path -> size in bytes",
        "limits": "steps, tokens and seconds it may use",
        "oracle": "tool calls that solve it",
    },
    "tasks validate": {
        "tasks": {"id": "the task's id", "good": "true or false", "faults": "what is wrong"},
        "good": "tasks without a fault",
        "bad": "tasks with one",
    },
    "doctor": {
        "ready": "whether nothing is missing",
        "checks": {
            "name": "what was looked at",
            "state": "ok, warning or fault",
            "text": "what was found",
            "fix": "what to do about it",
        },
    },
    "runs": {"runs": dict(RUN)},
    "error": {
        "error": {
            "kind": "name of the error",
            "what": "what is wrong",
            "where": "file, key or address it concerns",
            "help": "how to go on",
            "exit_code": "2 asked wrongly, 3 machine not ready, 4 could not go on",
            "errors": "the same three parts for each, where several were found",
        }
    },
}


def main(args: argparse.Namespace) -> int:
    """Print the fields of one verb, of `config`, or the names there are."""
    topic = " ".join(args.topic)
    if not topic:
        print("\n".join([*FIELDS, "config"]))
        return 0
    if topic == "config":
        print(json.dumps(RunConfig.model_json_schema(), indent=1))
        return 0
    if topic not in FIELDS:
        known = ", ".join([*FIELDS, "config"])
        raise ConfigError(f"no schema is named {topic!r}", help=f"there are {known}")
    if args.json:
        print(json.dumps(FIELDS[topic], indent=1))
    else:
        print("\n".join(_outline(FIELDS[topic], 0)))
    return 0


def _outline(fields: dict[str, object], depth: int) -> list[str]:
    lines = []
    for name, meaning in fields.items():
        head = "  " * depth + name
        if isinstance(meaning, dict):
            lines += [head, *_outline(meaning, depth + 1)]
        else:
            lines.append(f"{head:<24} {meaning}")
    return lines
