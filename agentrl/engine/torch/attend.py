"""Attention over paged keys and values for one ragged batch.

A step's flat tokens are: one token of each decoding sequence, then the chunks of sequences still
being prefilled. Decoding rows are padded to the longest and attended together; each chunk attends
by itself over what its sequence has cached plus its own tokens.
"""

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor
from torch.nn import functional as F

from agentrl.engine.torch.model import ModelConfig


class Chunk(Struct):
    """Tokens `start`..`end` of one sequence; `table` holds its blocks from token 0 on."""

    tokens: list[int]
    start: int
    table: list[int]

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


class PagedCache:
    """Keys and values of `blocks` blocks of `size` tokens, for every layer."""

    def __init__(
        self, config: ModelConfig, blocks: int, size: int, dtype: torch.dtype, device: str
    ) -> None:
        self.blocks, self.size, self.dtype, self.device = blocks, size, dtype, device
        self._heads, self._groups, self._width = config.heads, config.kv_heads, config.head_dim
        shape = (blocks, size * config.kv_heads * config.head_dim)
        self._keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.layers)]
        self._values = [torch.zeros_like(layer) for layer in self._keys]
        self._room = [torch.empty(0, dtype=dtype, device=device) for _ in range(2)]

    def plan(self, tables: np.ndarray, lengths: np.ndarray, chunks: list[Chunk]) -> "Plan":
        """Prepares one step; tables [B,N] block ids, lengths [B] cached tokens before this one."""
        slots = []
        if len(lengths):
            rows = np.arange(len(lengths))
            slots.append(tables[rows, lengths // self.size] * self.size + lengths % self.size)
        for chunk in chunks:
            places = np.arange(chunk.start, chunk.end)
            blocks = np.asarray(chunk.table, dtype=np.int64)
            slots.append(blocks[places // self.size] * self.size + places % self.size)
        plan = Plan(
            cache=self,
            rows=len(lengths),
            slots=self.tensor(np.concatenate(slots)),
            blocks=torch.empty(0),
            mask=torch.empty(0),
        )
        if len(lengths):
            width = int(lengths.max()) // self.size + 1
            plan.blocks = self.tensor(np.ascontiguousarray(tables[:, :width]).reshape(-1))
            seen = np.arange(width * self.size) <= lengths[:, None]
            shut = np.where(seen, np.float32(0), np.float32(-np.inf))[:, None, None, :]
            plan.mask = self.tensor(shut).to(self.dtype)
        plan.chunks = [self._span(chunk) for chunk in chunks]
        return plan

    def tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def store(self, layer: int, slots: Tensor, qkv: Tensor) -> None:
        h, g = self._heads, self._groups
        shape = (-1, g, self._width)
        self._keys[layer].view(shape).index_copy_(0, slots, qkv[:, h : h + g])
        self._values[layer].view(shape).index_copy_(0, slots, qkv[:, h + g :])

    def gather(self, layer: int, blocks: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        """Keys and values [rows,G,L,K] of `rows` equally long block lists laid end to end.

        They lie in room that the next call uses again: fresh room would be paged in every time.
        """
        out = []
        for index, pool in enumerate((self._keys[layer], self._values[layer])):
            need = len(blocks) * pool.shape[1]
            if self._room[index].numel() < need:
                room = torch.empty(need * 2, dtype=self.dtype, device=self.device)
                self._room[index] = room
            room = self._room[index][:need].view(len(blocks), pool.shape[1])
            torch.index_select(pool, 0, blocks, out=room)
            out.append(room.view(rows, -1, self._groups, self._width).transpose(1, 2))
        return out[0], out[1]

    def _span(self, chunk: Chunk) -> "Span":
        used = -(-chunk.end // self.size)
        mask = None
        if chunk.start > 0 and len(chunk.tokens) > 1:
            ahead = np.arange(chunk.end)[None, :] <= np.arange(chunk.start, chunk.end)[:, None]
            mask = self.tensor(np.where(ahead, np.float32(0), np.float32(-np.inf))).to(self.dtype)
        return Span(
            count=len(chunk.tokens),
            end=chunk.end,
            fresh=chunk.start == 0,
            blocks=self.tensor(np.asarray(chunk.table[:used], dtype=np.int64)),
            mask=mask,
        )


class Span(Struct):
    """A chunk ready for attention: `mask` [n,L] where looking ahead must be forbidden."""

    count: int
    end: int
    fresh: bool
    blocks: Tensor
    mask: Tensor | None


class Plan(Struct):
    """One step's attention: `blocks` [B*N], `mask` [B,1,1,L], `slots` [T] where each token goes."""

    cache: PagedCache
    rows: int
    slots: Tensor
    blocks: Tensor
    mask: Tensor
    chunks: list[Span] = []

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Stores this step's keys and values and attends; [T,H+2G,K] -> [T,H*K]."""
        cache = self.cache
        cache.store(layer, self.slots, qkv)
        heads, groups, width = cache._heads, cache._groups, cache._width
        parts = []
        if self.rows:
            keys, values = cache.gather(layer, self.blocks, self.rows)
            # The heads of a group stand where query positions would: nothing need be repeated.
            q = qkv[: self.rows, :heads].reshape(self.rows, groups, heads // groups, width)
            seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=self.mask)
            parts.append(seen.reshape(self.rows, heads * width))
        start = self.rows
        for span in self.chunks:
            own = qkv[start : start + span.count].transpose(0, 1)[None]
            start += span.count
            if span.fresh:
                keys, values = own[:, heads : heads + groups], own[:, heads + groups :]
            else:
                keys, values = cache.gather(layer, span.blocks, 1)
                keys, values = keys[:, :, : span.end], values[:, :, : span.end]
            seen = F.scaled_dot_product_attention(
                own[:, :heads],
                keys,
                values,
                attn_mask=span.mask,
                is_causal=span.fresh and span.count > 1,
                enable_gqa=heads != groups,
            )
            parts.append(seen[0].transpose(0, 1).reshape(span.count, heads * width))
        return parts[0] if len(parts) == 1 else torch.cat(parts)
