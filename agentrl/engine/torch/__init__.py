"""The embedded engine: plain torch, paged KV, continuous batching; CPU or CUDA."""
