#!/bin/bash
# Names and contents of all that is left, against the list wanted.
mkdir -p /logs/verifier
reward=0
if [ -d photos ]; then
  (cd photos && find . ! -type d -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum) > /tmp/got.txt 2>/dev/null
  cmp -s /tmp/got.txt /tests/want.sha256 && reward=1
  [ -n "$(find photos -type l)" ] && reward=0
fi
echo "$reward" > /logs/verifier/reward.txt
