"""The record: what happened, append-only, and everything that is rebuilt from it."""
