"""One event, one line of JSON; and what an event will be once it has been read back."""

from typing import Any

import msgspec

from agentrl.errors import AgentRLError, EpisodeError, RunError
from agentrl.trajectory.events import EpisodeHappening, Event, HeldOutMeasured, Verified

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """One line, without its newline."""
    return _ENCODER.encode(event)


def decode(line: bytes) -> Event:
    """Raises `msgspec.DecodeError` (of which `ValidationError` is one) for anything else."""
    return _DECODER.decode(line)


def readable(event: Event) -> tuple[Event, bytes]:
    """The event as every reader will see it, and its line.

    It is `event` itself wherever JSON keeps it whole. Half characters, which no JSON can hold,
    become U+FFFD; a tuple or a NaN inside call arguments or `meta` comes back as a list or None.
    A number that cannot be stored (NaN, infinity) anywhere else is refused: `EpisodeError` for an
    episode's event, `RunError` for the run's.
    """
    try:
        line = encode(event)
    except UnicodeEncodeError:
        event = msgspec.convert(_whole(msgspec.to_builtins(event)), Event)
        line = encode(event)
    except (TypeError, OverflowError) as error:
        raise _refused(event, str(error)) from error
    try:
        stored = decode(line)
    except msgspec.DecodeError as error:
        raise _refused(event, str(error)) from error
    if stored == event:
        return event, line
    if isinstance(event, Verified) or (
        isinstance(event, HeldOutMeasured)
        and isinstance(stored, HeldOutMeasured)
        and stored.results != event.results
    ):
        raise _refused(event, "a score that is not a number reads back as unknown")
    return stored, line


def _whole(value: Any) -> Any:
    """Strings without half characters, in whatever JSON shape."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


def _refused(event: Event, why: str) -> AgentRLError:
    kind = EpisodeError if isinstance(event, EpisodeHappening) else RunError
    place = f"episode {event.episode!r}" if isinstance(event, EpisodeHappening) else "the run"
    return kind(
        f"{type(event).__name__} cannot be recorded: {why}",
        where=place,
        help="events hold text and finite numbers; use None where a value is not known",
    )
