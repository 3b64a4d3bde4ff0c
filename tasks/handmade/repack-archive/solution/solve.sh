tar -czf release.tar.gz --exclude='*.bak' --exclude='release/tmp files' --transform='s,^release,app-1.2,' release
tar -tzf release.tar.gz | grep -v '/$' | LC_ALL=C sort > manifest.txt
