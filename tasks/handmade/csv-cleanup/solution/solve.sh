python3 - <<'PY'
seen = set()
with open("people.csv") as source, open("clean.csv", "w") as target:
    for number, line in enumerate(source):
        fields = [field.strip() for field in line.rstrip("\n").split(",")]
        if number:
            fields[1] = fields[1].lower()
            if not fields[1] or fields[1] in seen:
                continue
            seen.add(fields[1])
        target.write(",".join(fields) + "\n")
PY
