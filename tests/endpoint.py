"""A real endpoint on this machine whose manners a test chooses."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct, field


class Answer(Struct, frozen=True):
    """What to send back; a `body` that is not text is sent as JSON."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0


Manners = Callable[[dict[str, Any], int], Answer]
"""From a request's body and how many came before it to what is answered."""


def completion(
    content: str | None = None,
    calls: list[tuple[str, Any]] | None = None,
    usage: Any = (20, 5),
    finish: str = "stop",
) -> Answer:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": "same", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
    body: dict[str, Any] = {
        "id": "x", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }  # fmt: skip
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Answer(body)


def refusal(status: int, message: str, **headers: str) -> Answer:
    return Answer({"error": {"message": message}}, status, headers)


@contextmanager
def endpoint(manners: Manners) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serves; gives the base URL and the list of requests it has seen."""
    seen: list[dict[str, Any]] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                number = len(seen)
                seen.append(asked)
            answer = manners(asked, number)
            time.sleep(answer.after_s)
            data = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            try:
                self.send_response(answer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data.encode())))
                for name, value in answer.headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(data.encode())
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client gave up waiting, which is what some tests are about

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
