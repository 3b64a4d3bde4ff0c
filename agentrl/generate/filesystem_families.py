"""The filesystem families. Missing parent directories are made by writing or moving into them."""

from agentrl.generate.scene import Call, Scene, lines, sentence
from agentrl.generate.values import EXTENSIONS, Values

Files = dict[str, str | bytes]


def listing(path: str = ".") -> Call:
    return "list_files", {"path": path}


def reading(path: str) -> Call:
    return "read_file", {"path": path}


def writing(path: str, content: str) -> Call:
    """Content without the last newline: files are compared without white space at their end."""
    return "write_file", {"path": path, "content": content.rstrip("\n")}


def moving(source: str, destination: str) -> Call:
    return "move_file", {"source": source, "destination": destination}


def deleting(path: str) -> Call:
    return "delete_file", {"path": path}


def create(v: Values, difficulty: int) -> Scene:
    """Write one to three files; from 2 on in a new directory, at 5 over an old file as well."""
    plan = {
        1: ("new",),
        2: ("in",),
        3: ("new", "in"),
        4: ("in", "in", "new"),
        5: ("in", "two", "old", "new"),
    }[difficulty]
    folder = v.word() if difficulty > 1 else ""
    before: Files = {v.file(): lines(v.text())}
    after = dict(before)
    clauses, calls = [], []
    for kind in plan:
        path = v.file() if kind != "old" else next(iter(before))
        path = f"{folder}/{path}" if kind == "in" else path
        texts = [v.text() for _ in range(2 if kind == "two" else 1)]
        group = {"old": "old", "two": "two"}.get(kind, "new")
        clauses.append(v.pick(CREATE_CLAUSES[group]).format(path=path, text=" and ".join(texts)))
        after[path] = lines(*texts)
        calls.append(writing(path, lines(*texts)))
    return Scene(sentence(*clauses), before, after, calls)


CREATE_CLAUSES = {
    "new": (
        "create the file {path} with the line {text}",
        "write the line {text} to the file {path}",
        "make a file called {path} that says {text}",
        "put the text {text} into a file named {path}",
    ),
    "two": (
        "create {path} with the lines {text}",
        "write {text} as lines to {path}",
    ),
    "old": (
        "replace the whole content of {path} with {text}",
        "overwrite {path} with just {text}",
    ),
}


def rename(v: Values, difficulty: int) -> Scene:
    """Move a file, move it elsewhere, change extensions, swap two names."""
    if difficulty in (3, 4):
        return _rename_by_extension(v, difficulty - 1)
    source, other = v.file(), v.file()
    before: Files = {p: lines(v.text()) for p in v.shuffled([source, other])}
    after = dict(before)
    if difficulty == 5:
        after[source], after[other] = before[other], before[source]
        spare = v.file("tmp") if v.chance(0.5) else f"{source}.tmp"
        calls = [moving(source, spare), moving(other, source), moving(spare, other)]
        slots = {"source": source, "goal": other}
    else:
        goal = v.file(source.rsplit(".", 1)[1])
        goal = f"{v.word()}/{goal}" if difficulty == 2 else goal
        after[goal] = after.pop(source)
        calls = [moving(source, goal)]
        slots = {"source": source, "goal": goal}
    return Scene(v.pick(RENAME_PHRASES[difficulty]).format(**slots), before, after, calls)


def _rename_by_extension(v: Values, hits: int) -> Scene:
    old, new, kept = v.sample(EXTENSIONS, 3)
    folder = v.word()
    names = v.shuffled([v.file(old) for _ in range(hits)] + [v.file(kept)])
    before: Files = {f"{folder}/{name}": lines(v.text()) for name in names}
    after, calls = dict(before), [listing(folder)]
    for path in sorted(p for p in before if p.endswith(f".{old}")):
        goal = f"{path.rsplit('.', 1)[0]}.{new}"
        after[goal] = after.pop(path)
        calls.append(moving(path, goal))
    text = v.pick(RENAME_PHRASES[3]).format(folder=folder, old=old, new=new)
    return Scene(text, before, after, calls)


RENAME_PHRASES = {
    1: (
        "Rename the file {source} to {goal} and leave its content alone.",
        "The file {source} should be called {goal} from now on.",
        "Give {source} the new name {goal}, changing nothing else.",
    ),
    2: (
        "Move the file {source} to {goal} and leave its content alone.",
        "The file {source} belongs at {goal}; put it there.",
        "Move {source} so that its new path is {goal}.",
    ),
    3: (
        "In the directory {folder}, rename every .{old} file to end in .{new} instead.",
        "Change the extension of all .{old} files in {folder} to .{new}.",
        "All files in {folder} that end in .{old} should end in .{new}; rename them.",
    ),
    5: (
        "Swap the names of {source} and {goal}, so that each holds what the other held.",
        "Exchange the two files {source} and {goal}: each gets the other's name.",
        "Make {source} and {goal} trade places, keeping what is in them.",
    ),
}


def delete(v: Values, difficulty: int) -> Scene:
    """Delete a named file, all of an extension, or those whose content says so."""
    if difficulty >= 4:
        return _delete_by_content(v, difficulty - 3)
    folder = v.word() if difficulty > 1 else ""
    gone, kept = v.sample(EXTENSIONS, 2)
    wanted = [gone] * (1 if difficulty < 3 else 2)
    names = v.shuffled([v.file(e) for e in [*wanted, kept, kept][: 3 if difficulty < 3 else 4]])
    before: Files = {f"{folder}/{n}" if folder else n: lines(v.text()) for n in names}
    doomed = sorted(path for path in before if path.endswith(f".{gone}"))
    after = {path: data for path, data in before.items() if path not in doomed}
    calls = [deleting(path) for path in doomed]
    if difficulty > 1:
        calls = [listing(folder), *calls]
    text = v.pick(DELETE_PHRASES[difficulty]).format(folder=folder, gone=gone, path=doomed[0])
    return Scene(text, before, after, calls)


def _delete_by_content(v: Values, hits: int) -> Scene:
    paths = sorted(v.file() for _ in range(2 if hits == 2 else 3))
    word, other = v.name(), v.name()
    doomed = sorted(v.sample(paths, 1))
    before: Files = {p: lines(word if p in doomed else v.name(), v.name()) for p in paths}
    after = {p: data for p, data in before.items() if p not in doomed}
    calls = [listing()]
    if hits == 2:  # the other file stays, but a word in it has to change
        kept = next(p for p in paths if p not in doomed)
        first, second = str(before[kept]).split()
        after[kept] = lines(first, other)
        calls += [*(reading(p) for p in paths), deleting(doomed[0])]
        calls.append(writing(kept, lines(first, other)))
        text = v.pick(DELETE_PHRASES[5]).format(word=word, old=second, new=other)
        return Scene(text, before, after, calls)
    seen = paths[: paths.index(doomed[0]) + 1]
    calls += [*(reading(p) for p in seen), deleting(doomed[0])]
    return Scene(v.pick(DELETE_PHRASES[4]).format(word=word), before, after, calls)


DELETE_PHRASES = {
    1: (
        "Delete the file {path} and leave all the others alone.",
        "Remove {path}; every other file has to stay.",
        "The file {path} is not needed any more, so delete it.",
    ),
    2: (
        "Delete the file in the directory {folder} that ends in .{gone}.",
        "Remove the one .{gone} file from {folder} and nothing else.",
        "In {folder}, get rid of the .{gone} file.",
    ),
    3: (
        "Delete all files in the directory {folder} that end in .{gone}.",
        "Remove every .{gone} file from {folder} and nothing else.",
        "In {folder}, get rid of all the .{gone} files.",
    ),
    4: (
        "Delete the file that contains the word {word} and leave the others alone.",
        "One of the files here has {word} in it; delete just that one.",
        "Read the files and remove the one in which {word} occurs.",
    ),
    5: (
        "Delete the file that contains {word}; in the other one, replace {old} with {new}.",
        "One file here has {word} in it: delete it. In the other, change {old} to {new}.",
        "Remove the file in which {word} occurs, and turn {old} into {new} in the other file.",
    ),
}


def copy_value(v: Values, difficulty: int) -> Scene:
    """Read the value of a key and write it elsewhere; later the file must be found first."""
    size = 2 if difficulty == 1 else 3
    files = [v.file("cfg") for _ in range(1 if difficulty < 4 else 2)]
    tables: list[dict[str, object]] = [
        {v.name(): v.number() if v.chance(0.5) else v.name() for _ in range(size)} for _ in files
    ]
    home = v.below(len(files))
    wanted = v.sample(list(tables[home]), 2 if difficulty == 3 else 1)
    outs = [v.file("txt") for _ in wanted]
    source = files[home]
    if difficulty == 5:
        source = files[1 - home]
        tables[1 - home]["next"] = files[home]
    before: Files = {
        path: lines(*(f"{k}={x}" for k, x in table.items()))
        for path, table in v.shuffled(zip(files, tables, strict=True))
    }
    after = {**before, **{o: lines(tables[home][k]) for o, k in zip(outs, wanted, strict=True)}}
    looks = [reading(source)]
    if difficulty == 4:
        seen = sorted(files)
        looks = [listing(), *(reading(p) for p in seen[: seen.index(source) + 1])]
    elif difficulty == 5:
        looks.append(reading(files[home]))
    calls = [*looks, *(writing(o, str(after[o])) for o in outs)]
    clauses = [
        v.pick(COPY_PHRASES[difficulty]).format(key=key, source=source, out=out)
        for key, out in zip(wanted, outs, strict=True)
    ]
    return Scene(sentence(*clauses), before, after, calls)


_COPY = (
    "read the value of {key} in {source} and write just that to {out}",
    "write the value that {key} has in {source} into a new file {out}",
    "look up {key} in {source} and save only its value in {out}",
    "copy the value of the key {key} from {source} to the file {out}",
)
COPY_PHRASES = {
    1: _COPY,
    2: _COPY,
    3: _COPY,
    4: (
        "one of the .cfg files has the key {key}; write just its value to {out}",
        "find the key {key} in the .cfg files and save only its value in {out}",
        "search the files for {key} and put its value into a new file {out}",
    ),
    5: (
        "the key next in {source} names a file; write the value {key} has there to {out}",
        "read the key next in {source}, open that file and save its value of {key} in {out}",
        "follow next in {source} to another file and write its value of {key} to {out}",
    ),
}


def organise(v: Values, difficulty: int) -> Scene:
    """Move files into directories by extension; at 5 by the kind each file states inside."""
    hits, others = {1: (1, 1), 2: (2, 1), 3: (1, 1), 4: (2, 1), 5: (1, 1)}[difficulty]
    first, second, third = v.sample(EXTENSIONS, 3)
    goals = [v.word() for _ in range(2)]
    by_content = difficulty == 5
    kinds = [v.name(), v.name()] if by_content else [first, second]
    chosen = v.shuffled([kinds[0]] * hits + [kinds[1]] * others)
    before: Files = {}
    moves: list[Call] = []
    for kind in chosen:
        path = v.file(third if by_content else kind)
        before[path] = lines(f"kind={kind}", v.name()) if by_content else lines(v.text())
        if kind == kinds[0] or difficulty >= 3:
            moves.append(moving(path, f"{goals[kinds.index(kind)]}/{path}"))
    after = dict(before)
    moves = sorted(moves, key=lambda call: str(call[1]["source"]))
    for _, arguments in moves:
        after[arguments["destination"]] = after.pop(arguments["source"])
    looks = [listing(), *(reading(p) for p in sorted(before) if by_content)]
    slots = {"a": kinds[0], "b": kinds[1], "one": goals[0], "two": goals[1]}
    text = v.pick(ORGANISE_PHRASES[difficulty]).format(**slots)
    return Scene(text, before, after, [*looks, *moves])


_ORGANISE_ONE = (
    "Move all files that end in .{a} into the directory {one}.",
    "Put every .{a} file into a directory {one}; the others stay.",
    "Collect the .{a} files in a new directory named {one}.",
)
_ORGANISE_TWO = (
    "Move the .{a} files into the directory {one} and the .{b} files into {two}.",
    "Sort the files by extension: .{a} goes to {one}/ and .{b} goes to {two}/.",
    "Put every .{a} file into a directory {one} and every .{b} file into {two}.",
)
ORGANISE_PHRASES = {
    1: _ORGANISE_ONE,
    2: _ORGANISE_ONE,
    3: _ORGANISE_TWO,
    4: _ORGANISE_TWO,
    5: (
        "Each file states its kind. Move those of kind {a} into {one} and those of kind {b} "
        "into {two}.",
        "Sort the files by the kind inside: kind {a} goes to {one}/, kind {b} goes to {two}/.",
        "Read each file's kind; put {a} into a directory {one} and {b} into {two}.",
    ),
}


def merge(v: Values, difficulty: int) -> Scene:
    """Add a line to a file, join files in a given order, drop the parts afterwards."""
    count = {1: 1, 2: 2, 3: 2, 4: 3, 5: 2}[difficulty]
    ext, kept = v.sample(EXTENSIONS, 2)
    paths = [v.file(ext) for _ in range(count)]
    texts = {path: lines(v.text()) for path in paths}
    before: Files = {path: texts[path] for path in v.shuffled(paths)}
    after = dict(before)
    order = sorted(paths) if difficulty == 5 else paths
    out = v.file("txt")
    slots = {"ext": ext, "out": out, "parts": ", ".join(order[:-1]) + " and " + order[-1]}
    looks = [reading(path) for path in order]
    calls: list[Call]
    if difficulty == 1:
        out, extra = paths[0], v.text()
        after[out] = texts[out] + lines(extra)
        calls = [*looks, writing(out, str(after[out]))]
        slots |= {"out": out, "extra": extra}
    else:
        after[out] = "".join(texts[path] for path in order)
        calls = [*looks, writing(out, str(after[out]))]
    if difficulty == 3:
        calls += [deleting(path) for path in order]
        for path in order:
            del after[path]
    elif difficulty == 5:
        odd = v.file("tmp" if kept == "txt" else kept)
        before[odd] = after[odd] = lines(v.text())
        calls = [listing(), *calls]
    return Scene(v.pick(MERGE_PHRASES[difficulty]).format(**slots), before, after, calls)


_MERGE = (
    "Write the lines of {parts}, in this order, into a new file {out}.",
    "Join {parts} in this order and save the result as {out}.",
    "Make {out} out of {parts}: their lines one after the other.",
)
MERGE_PHRASES = {
    1: (
        "Add {extra} as a last line to {out} and keep what is there.",
        "Append the line {extra} at the end of the file {out}.",
        "The file {out} needs one more line at its end: {extra}.",
    ),
    2: _MERGE,
    3: (
        "Join {parts} in this order into {out}, then delete the parts.",
        "Write the lines of {parts} into a new file {out} and remove both sources.",
        "Merge {parts}, in this order, to {out}; delete the two old files.",
    ),
    4: _MERGE,
    5: (
        "Join all .{ext} files here, in alphabetical order of their names, into a new file {out}.",
        "Write the lines of every .{ext} file, sorted by file name, to {out}.",
        "Find the .{ext} files and merge them in the order of their names into {out}.",
    ),
}
