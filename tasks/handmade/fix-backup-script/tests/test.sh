#!/bin/bash
mkdir -p /logs/verifier
exec python3 -I /tests/check.py
