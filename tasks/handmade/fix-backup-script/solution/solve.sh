cat > backup.sh <<'SH'
#!/bin/bash
source=$1
target=$2
count=0
mkdir -p "$target"
while IFS= read -r -d '' file; do
  to="$target/${file#"$source"/}"
  mkdir -p "$(dirname "$to")"
  cp "$file" "$to"
  count=$((count + 1))
done < <(find "$source" -type f -name '*.txt' -print0)
echo "$count"
SH
chmod +x backup.sh
