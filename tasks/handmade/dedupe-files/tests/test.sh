#!/bin/bash
mkdir -p /logs/verifier
reward=0
find inbox ! -type d -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 -r sha256sum > /tmp/got.txt 2>/dev/null
cmp -s /tmp/got.txt /tests/want.sha256 && [ -z "$(find inbox -type l)" ] && reward=1
echo "$reward" > /logs/verifier/reward.txt
