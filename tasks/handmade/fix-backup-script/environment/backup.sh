#!/bin/bash
source=$1
target=$2
count=0
for file in $(ls $source/*.txt); do
  cp $file $target/
  count=$count+1
done
echo $count
