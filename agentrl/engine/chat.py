"""Any OpenAI-compatible endpoint as a policy: words in, words out, for evaluation.

An endpoint may be down, slow, busy or wrong about itself. What passes is waited for, within limits;
what cannot work ends the run with one line; what an agent's own words may have caused is judged
like any other reply.
"""

import asyncio
import math
import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import openai
from openai import AsyncOpenAI

from agentrl.engine.base import Finish, Reply
from agentrl.engine.chat_format import (
    Endpoint,
    Mode,
    checked_url,
    functions,
    incoming,
    outgoing,
    retry_after,
)
from agentrl.engine.policy import reply_seed
from agentrl.engine.render import Renderer
from agentrl.errors import EngineError, NotReady, RunError
from agentrl.messages import Message
from agentrl.tool import ToolSpec
from agentrl.trajectory.records import Usage

LONGEST_WAIT_S = 60.0
"""However long a `Retry-After` asks for."""
BYTES_A_TOKEN = 128
"""No vocabulary in use has longer tokens, so fewer tokens than this allows cannot be."""

BAD = (openai.BadRequestError, openai.UnprocessableEntityError)
UNABLE = ("support", "unknown", "unrecognized", "unexpected", "permitted", "extra", "choice")
"""How endpoints say that they take no tools."""

Again = Literal["down", "slow", "busy", "broken"]


class Passing(Exception):
    """A try failed in a way that may pass; `wait_s` is how long the endpoint asked for."""

    def __init__(self, kind: Again, what: str, wait_s: float = 0.0) -> None:
        super().__init__(what)
        self.kind = kind
        self.wait_s = wait_s


class Refused(Exception):
    """The endpoint will not answer this very request, however often it is sent."""


class ChatPolicy:
    """A conversation in, one reply out, from an endpoint.

    Args:
        renderer: counts the tokens of a context, so that every policy plays within the same
            budget, and those of replies whose usage the endpoint does not say or misstates.
        reply_tokens: most tokens of a reply.
        seed: with the session's name and the turn, the seed sent along with each request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        renderer: Renderer,
        *,
        reply_tokens: int,
        temperature: float = 1.0,
        seed: int = 0,
        mode: Mode = "native",
    ) -> None:
        self.endpoint = endpoint
        self.mode: Mode = mode
        self.adapted: list[str] = []  # what the endpoint would not take, in words
        self.doubted = 0  # replies whose usage could not be true
        self.tries_failed: dict[str, int] = {}
        self._renderer = renderer
        self._reply_tokens = reply_tokens
        self._seed = seed
        self._turns: dict[str, int] = {}
        self._lost: dict[str, float] = {}
        self._not_before = 0.0
        self._limit_key = "max_tokens"
        self._native_worked = False
        self._options: dict[str, Any] = {"temperature": temperature, "seed": seed}
        self._key = os.environ.get(endpoint.key_env) or "none"
        self._client = AsyncOpenAI(
            base_url=checked_url(endpoint.base_url),
            api_key=self._key,
            max_retries=0,
            timeout=endpoint.request_s,
        )

    async def respond(
        self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str
    ) -> Reply:
        """One reply. Raises EngineError where the endpoint gives none, RunError where it never
        will."""
        turn = self._turns.get(session, 0)
        try:
            answer = await self._patiently(context, tools, session, turn)
        except Refused as error:
            if not any(message.role == "assistant" for message in context):
                raise EngineError(
                    f"the endpoint refuses the task's own words: {error}", where=self._where
                ) from error
            # Its own words or their length may be the cause: no excuse, the episode is judged.
            self._turns[session] = turn + 1
            return Reply(Message("assistant", ""), None, "length", Usage(0, 0, True))
        self._turns[session] = turn + 1
        choice = answer.choices[0]
        finish: Finish = "length" if choice.finish_reason == "length" else "stop"
        message = incoming(choice.message, turn, finish == "length")
        return Reply(message, None, finish, self._usage(answer, message, context, tools))

    def count(self, context: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Tokens of the context in the renderer's vocabulary, not the endpoint's."""
        return len(self._renderer.prompt(context, tools))

    def forget(self, session: str) -> None:
        """The session starts afresh if it comes again."""
        self._turns.pop(session, None)

    def lost(self, session: str) -> float:
        """Seconds this session waited for the endpoint in vain; counted from 0 again after."""
        return self._lost.pop(session, 0.0)

    async def close(self) -> None:
        await self._client.close()

    async def probe(self) -> None:
        """Raises NotReady, with the reason in one line, unless the endpoint answers a request."""
        hello = [Message("user", "Reply with the word: ready")]
        spec = ToolSpec("ready", "Say that you are ready.")
        end = time.monotonic() + min(self.endpoint.patience_s, 20.0)
        while True:
            try:
                await self._once(hello, [spec], "probe", 0)
                return
            except Passing as error:
                if error.kind == "busy":
                    return  # it is there, and will be waited for
                if time.monotonic() + self.endpoint.pause_s >= end:
                    raise NotReady(
                        f"the endpoint does not answer: {error}",
                        where=self._where,
                        help="start it, or give its address as --base-url http://HOST:PORT/v1",
                    ) from error
            except (Refused, RunError) as error:
                told = error if isinstance(error, RunError) else None
                raise NotReady(
                    told.what if told else f"the endpoint refuses a plain request: {error}",
                    where=self._where,
                    help=told.help if told else "see which requests it takes",
                ) from error
            await asyncio.sleep(self.endpoint.pause_s)

    @property
    def _where(self) -> str:
        return f"{self.endpoint.base_url}, model {self.endpoint.model}"

    async def _patiently(
        self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str, turn: int
    ) -> Any:
        """Tries until there is an answer or patience ends: EngineError, Refused, RunError."""
        began = time.monotonic()
        pause = self.endpoint.pause_s
        while True:
            while (wait := self._not_before - time.monotonic()) > 0:
                await self._idle(session, wait)
            tried = time.monotonic()
            try:
                return await self._once(context, tools, session, turn)
            except Passing as error:
                self.tries_failed[error.kind] = self.tries_failed.get(error.kind, 0) + 1
                wait = min(max(error.wait_s, pause), LONGEST_WAIT_S)
                if error.kind == "busy":  # for everyone: more requests would not help
                    self._not_before = max(self._not_before, time.monotonic() + wait)
                if time.monotonic() + wait - began > self.endpoint.patience_s:
                    raise EngineError(
                        f"no answer within {self.endpoint.patience_s:g} s: {error}",
                        where=self._where,
                    ) from error
                await self._idle(session, wait, time.monotonic() - tried)
                pause *= 2

    async def _idle(self, session: str, wait: float, before: float = 0.0) -> None:
        """Sleeps; what a cancelled sleep took counts as lost too."""
        began = time.monotonic()
        try:
            await asyncio.sleep(wait)
        finally:
            gone = before + time.monotonic() - began
            self._lost[session] = self._lost.get(session, 0.0) + gone

    async def _once(
        self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str, turn: int
    ) -> Any:
        while True:
            asked: dict[str, Any] = dict(self._options)
            if "seed" in asked:
                asked["seed"] = reply_seed(self._seed, session, turn) % 2**31
            if tools and self.mode == "native":
                asked["tools"] = functions(tools)
            asked[self._limit_key] = self._reply_tokens
            messages = outgoing(context, tools, self.mode)
            try:
                create: Any = self._client.chat.completions.create
                answer = await create(model=self.endpoint.model, messages=messages, **asked)
            except openai.APIError as error:
                if isinstance(error, BAD) and self._adapt(str(error.message).lower(), asked):
                    continue
                raise self._named(error) from error
            except ValueError as error:  # an answer that is not JSON
                raise Passing("broken", f"it answers with something else: {error}") from error
            choices = getattr(answer, "choices", None)
            if not choices or getattr(choices[0], "message", None) is None:
                raise Passing("broken", "it answers without a choice")
            self._native_worked |= "tools" in asked
            return answer

    def _adapt(self, complaint: str, asked: dict[str, Any]) -> bool:
        """Leave out what the endpoint says it does not take; False: nothing to leave out."""
        if "max_completion_tokens" in complaint and "max_tokens" in asked:
            self._limit_key = "max_completion_tokens"
            return True
        for name in ("temperature", "seed"):
            if name in complaint and name in asked:
                self._options.pop(name, None)
                self._note(f"{name} left to the endpoint")
                return True
        unable = "tool" in complaint and any(word in complaint for word in UNABLE)
        if unable and "tools" in asked and not self._native_worked:
            self.mode = "text"
            self._note("tools described in words")
            return True
        return False

    def _note(self, text: str) -> None:
        if text not in self.adapted:
            self.adapted.append(text)

    def _named(self, error: openai.APIError) -> Exception:
        """What an error means for this request and all others."""
        what = self._clean(error)
        if isinstance(error, openai.APITimeoutError):
            return Passing("slow", f"no answer in {self.endpoint.request_s:g} s")
        if not isinstance(error, openai.APIStatusError):
            kind: Again = "down" if isinstance(error, openai.APIConnectionError) else "broken"
            return Passing(kind, what)
        code = error.status_code
        if code == 429 and "quota" not in what.lower():
            return Passing("busy", what, retry_after(error.response.headers.get("retry-after")))
        if code in (408, 409, 425) or code >= 500:
            return Passing("broken", what, retry_after(error.response.headers.get("retry-after")))
        if code in (400, 413, 422):
            return Refused(what)
        helps = {
            401: f"put the key into the environment variable {self.endpoint.key_env}",
            403: f"the key in {self.endpoint.key_env} may not use this model",
            404: "see `GET /v1/models` for the names it knows; the address usually ends in /v1",
        }
        help = helps.get(code, "the endpoint will answer the same to every request")
        return RunError(f"the endpoint refuses: {what}", where=self._where, help=help)

    def _clean(self, error: Exception) -> str:
        """One line without the key."""
        text = " ".join(str(error.__cause__ or error).split())
        if isinstance(error, openai.APIStatusError):
            text = " ".join(f"HTTP {error.status_code}: {said(error)}".split())
        return text.replace(self._key, "***")[:200] if self._key != "none" else text[:200]

    def _usage(
        self,
        answer: Any,
        message: Message,
        context: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Usage:
        """The endpoint's figures where they can be true, else what we count."""
        told: Any = getattr(answer, "usage", None)
        prompt: Any = getattr(told, "prompt_tokens", None)
        sampled: Any = getattr(told, "completion_tokens", None)
        size = len(message.content.encode("utf-8", "replace"))
        size += sum(len(repr(call.arguments)) for call in message.calls)
        least = math.ceil(size / BYTES_A_TOKEN)
        whole = isinstance(prompt, int) and isinstance(sampled, int)
        if whole and prompt > 0 and least <= sampled <= self._reply_tokens:
            return Usage(prompt, sampled)
        self.doubted += told is not None
        words = message.content + "".join(repr(call.arguments) for call in message.calls)
        return Usage(self.count(context, tools), len(self._renderer.tokenizer.encode(words)), True)


def said(error: openai.APIStatusError) -> str:
    """The sentence in an error's body, whatever shape the body has."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        inner = inner.get("message") or inner
    return str(inner or error.message)
