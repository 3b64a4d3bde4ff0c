"""Shell families about what is in files: count, triage logs, sort and cut columns."""

from agentrl.generate.scene import Scene, lines
from agentrl.generate.terminal_files import Files, shell
from agentrl.generate.values import Values


def count(v: Values, difficulty: int) -> Scene:
    """Count lines or files and leave the number in a file."""
    word, others = v.word(), [v.word() for _ in range(3)]
    folder = v.word() if difficulty >= 3 else ""
    size = 5 if difficulty < 3 else 3
    before: Files = {}
    for i in range(1 if difficulty < 3 else 3):
        hits = 1 + v.below(size - 1) if i < 2 else 0
        rows = [word] * hits + [v.pick(others) for _ in range(size - hits)]
        path = v.file()
        before[f"{folder}/{path}" if folder else path] = lines(*v.shuffled(rows))
    name = next(iter(before))
    rows = [row for text in before.values() for row in str(text).split()]
    matching, holders = rows.count(word), sum(word in str(t) for t in before.values())
    out, second = v.file("txt"), v.file("txt")
    kind = v.below(2)
    if difficulty == 1:
        asked = [("matching", f"grep -c {word} {name}", matching)]
    elif difficulty == 2:
        asked = [
            ("lines", f"wc -l < {name}", len(rows)),
            ("without", f"grep -vc {word} {name}", len(rows) - matching),
        ][kind : kind + 1]
    elif difficulty == 3:
        asked = [("matching", f"cat {folder}/* | grep -c {word}", matching)]
    else:
        asked = [
            ("holders", f"grep -l {word} {folder}/* | wc -l", holders),
            ("distinct", f"cat {folder}/* | sort -u | wc -l", len(set(rows))),
        ]
        asked = asked[kind : kind + 1] if difficulty == 4 else v.shuffled(asked)
    where = f"all files of {folder} together" if folder else name
    phrase, see = v.pick(COUNT_PHRASES), v.chance(0.5)
    texts, calls, after = [], [], dict(before)
    for (what, command, result), path in zip(asked, (out, second), strict=False):
        said = COUNT_WHAT[what].format(word=word, where=where, folder=folder)
        texts.append(phrase.format(what=said, out=path))
        after[path] = lines(result)
        look = [shell(command), shell(f"echo {result} > {path}")]
        calls += look if see else [shell(f"{command} > {path}")]
    return Scene(" ".join(texts), before, after, calls)


COUNT_PHRASES = (
    "Count {what} and write the number to {out}.",
    "Write the number of {what} into {out}.",
    "Find out the number of {what}; save it in {out}.",
    "How many? Count {what} and put just the number in {out}.",
)
COUNT_WHAT = {
    "matching": "the lines with {word} in {where}",
    "lines": "all the lines in {where}",
    "without": "the lines without {word} in {where}",
    "holders": "the files in {folder} that contain {word}",
    "distinct": "the different lines in {where}",
}


def log_triage(v: Values, difficulty: int) -> Scene:
    """Find the error among log lines and write down what it says; at 5, what its code means."""
    verbs = v.sample(("open", "save", "load", "send", "sync", "read"), 4)
    paths = [v.file("log") for _ in range(1 if difficulty < 3 else 2)]
    errors = [
        (v.pick(verbs), v.number()) for _ in range({1: 1, 2: 2, 3: 1, 4: 2, 5: 1}[difficulty])
    ]
    if difficulty == 4:
        errors = [(verb, code) for verb, (_, code) in zip(verbs, errors, strict=False)]
    home = v.below(len(paths))
    before: Files = {}
    for i, path in enumerate(paths):
        rows = [f"{v.pick(('INFO', 'WARN'))} {v.pick(verbs)} {v.number()}" for _ in range(3)]
        for verb, code in errors if i == home else []:
            rows.append(f"ERROR {verb} {code}")
        if i == home and difficulty != 2:
            rows = v.shuffled(rows)
        elif i == home:  # the last error is not the last line
            rows = [rows[0], rows[3], rows[1], rows[4], rows[2]]
        before[path] = lines(*rows)
    out = v.file("txt")
    name, (verb, code) = paths[home], errors[-1]
    after, answer = dict(before), str(code)
    look = f"grep ERROR {name}" if difficulty < 3 else "grep ERROR *.log"
    if difficulty == 2:
        look += v.pick((" | tail -n 1", ""))
    calls = [shell(look)]
    if difficulty == 4:
        calls = [shell(f'grep "ERROR {verb}" *.log')]
        second = v.file("txt")
        after[second] = lines(name)
    if difficulty == 5:
        table = v.file("csv")
        codes = v.shuffled([(code, v.name()), (v.number(), v.name()), (v.number(), v.name())])
        before[table] = after[table] = lines(*(f"{c},{n}" for c, n in codes))
        answer = dict(codes)[code]
        calls.append(shell(f"grep {code} {table}"))
    after[out] = lines(answer)
    calls.append(shell(f"echo {answer} > {out}"))
    slots = {"name": name, "out": out, "verb": verb}
    if difficulty == 4:
        calls.append(shell(f"echo {name} > {second}"))
        slots["second"] = second
    if difficulty == 5:
        slots["table"] = table
    return Scene(v.pick(LOG_PHRASES[difficulty]).format(**slots), before, after, calls)


LOG_PHRASES = {
    1: (
        "Find the ERROR line in {name} and write its number to {out}.",
        "One line of {name} is an ERROR; put the number it ends with in {out}.",
        "Look for ERROR in {name} and save only its code number in {out}.",
    ),
    2: (
        "Find the last ERROR line in {name} and write its number to {out}.",
        "Write the code number of the last ERROR in {name} into {out}.",
        "Several lines of {name} are an ERROR; save the number of the last one in {out}.",
    ),
    3: (
        "One of the .log files has an ERROR line; write its number to {out}.",
        "Search all .log files for ERROR and save only its code number in {out}.",
        "Find the ERROR in the logs here and put the number it ends with in {out}.",
    ),
    4: (
        "Find the {verb} ERROR in the .log files; write its number to {out} and the name of "
        "that log to {second}.",
        "Search the .log files for the ERROR of {verb}. Save its number in {out} and the file "
        "it is in, by name, in {second}.",
        "Which log has the {verb} ERROR? Put its number in {out} and the log's file name "
        "in {second}.",
    ),
    5: (
        "Find the ERROR in the .log files, look up its number in {table}, and write the name "
        "it stands for to {out}.",
        "The file {table} names error codes. Write the name of the code of the ERROR line in "
        "the logs to {out}.",
        "One .log file has an ERROR with a number; {table} says what it means. Save that name "
        "in {out}.",
    ),
}


def columns(v: Values, difficulty: int) -> Scene:
    """Sort and cut small tables. Names are plain words, so every locale sorts them alike."""
    paths = [v.file("txt") for _ in range(2 if difficulty == 5 else 1)]
    tables = {path: [(v.word(), v.number()) for _ in range(4)] for path in paths}
    before: Files = {p: lines(*(f"{n} {x}" for n, x in rows)) for p, rows in tables.items()}
    out = v.file("dat")
    rows = [row for table in tables.values() for row in table]
    high = v.chance(0.5)
    ranked = sorted(rows, key=lambda row: row[1], reverse=high)
    files = " ".join(paths)
    order = "sort -k2 -nr" if high else "sort -k2 -n"
    take = {4: 1, 5: 2}.get(difficulty, 0)
    if difficulty == 1:
        result = lines(*(f"{n} {x}" for n, x in sorted(rows)))
        command = f"sort {files}"
    elif difficulty == 2:
        column = 1 + v.below(2)
        result = lines(*(row[column - 1] for row in rows))
        command = f"cut -d ' ' -f {column} {files}"
        high = column == 1
    elif difficulty == 3:
        result = lines(*(f"{n} {x}" for n, x in ranked))
        command = f"{order} {files}"
    else:
        result = lines(*(n for n, _ in ranked[:take]))
        command = f"{order} {files} | head -n {take} | cut -d ' ' -f 1"
    calls = [shell(f"{command} > {out}")]
    if difficulty == 4 and v.chance(0.5):
        calls = [shell(f"{order} {files}"), shell(f"echo {result.strip()} > {out}")]
    elif difficulty == 5 or v.chance(0.3):
        calls = [shell(f"cat {files}"), *calls]
    most = "largest" if high else "smallest"
    column_said = "names" if high else "numbers"
    text = v.pick(COLUMN_PHRASES[difficulty]).format(
        name=paths[0], names=" and ".join(paths), out=out, most=most, column=column_said
    )
    return Scene(text, before, {**before, out: result}, calls)


COLUMN_PHRASES = {
    1: (
        "Sort the lines of {name} by name and write them to {out}.",
        "Write the lines of {name} in alphabetical order into a file {out}.",
        "Make {out} from {name}: the same lines, sorted from a to z.",
    ),
    2: (
        "Each line of {name} has a name and a number; write only the {column} to {out}.",
        "Write just the {column} from the lines of {name}, in order, to {out}.",
        "Copy only the column of {column} of {name} into a new file {out}.",
    ),
    3: (
        "Sort the lines of {name} by their number, {most} first, and write them to {out}.",
        "Order the lines of {name} by number with the {most} first; save the result in {out}.",
        "Make {out} from {name}: the same lines ordered by number, {most} at the top.",
    ),
    4: (
        "Write the name with the {most} number in {name} to {out}.",
        "Each line of {name} is a name and a number. Save the name with the {most} in {out}.",
        "Find the {most} number in {name} and put only its name in {out}.",
    ),
    5: (
        "Over {names} together, write the two names with the {most} numbers to {out}, {most} "
        "first, one a line.",
        "Take all lines of {names} and save the names of the two {most} numbers in {out}, "
        "{most} first.",
        "Find the two {most} numbers in {names}; put only their names in {out}, one a line, "
        "{most} first.",
    ),
}
