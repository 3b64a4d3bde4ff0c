#!/bin/bash
mkdir -p /logs/verifier
python3 -I /tests/check.py > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
