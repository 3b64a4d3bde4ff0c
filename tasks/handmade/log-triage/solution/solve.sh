cat logs/*.log | awk '$2 == "ERROR" { n[$3]++ } END { for (s in n) print s, n[s] }' | sort -k2,2nr -k1,1 > errors.txt
