"""What a rollout pays for coming close to its token limit."""


def overlong_penalty(length: int, limit: int, buffer: int, *, clamp: bool = True) -> float:
    """0 up to `limit - buffer` tokens, then down in a line to -1 at `limit` (DAPO, 2503.14476).

    Beyond the limit it stays at -1, or without `clamp` goes on down the line, as the code of verl
    and AReaL does. Example: limit 100, buffer 20: 80 -> 0, 90 -> -0.5, 110 -> -1 (-1.5 unclamped).
    """
    over = (limit - buffer - length) / buffer
    return min(0.0, max(over, -1.0) if clamp else over)
