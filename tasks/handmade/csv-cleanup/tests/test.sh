#!/bin/bash
mkdir -p /logs/verifier
reward=0
if [ -f clean.csv ] && [ ! -L clean.csv ] && tr -d '\r' < clean.csv | diff -q - /tests/want.csv >/dev/null; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
