#!/bin/bash
# The answer is fixed, and so are the logs it comes from.
mkdir -p /logs/verifier
reward=1
[ -f errors.txt ] && [ ! -L errors.txt ] || reward=0
printf '%s\n' "billing 7" "mailer 4" "search 4" "auth 2" "cart 1" > /tmp/want.txt
sed 's/[[:space:]]*$//' errors.txt 2>/dev/null | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' > /tmp/got.txt
cmp -s /tmp/want.txt /tmp/got.txt || reward=0
(cd logs 2>/dev/null && sha256sum --quiet --strict -c /tests/logs.sha256 >/dev/null 2>&1) || reward=0
echo "$reward" > /logs/verifier/reward.txt
