"""Shell families about files as wholes: write, find and move, edit settings, unpack."""

import io
import tarfile

from agentrl.generate.scene import Call, Scene, lines, sentence
from agentrl.generate.values import EXTENSIONS, Values

Files = dict[str, str | bytes]


def shell(command: str) -> Call:
    return "shell", {"command": command}


def write(v: Values, difficulty: int) -> Scene:
    """Create, append, overwrite; from difficulty 2 on in a directory that is not there yet."""
    plan = {
        1: ("create",),
        2: ("create_in",),
        3: ("create_in", "append"),
        4: ("create_in", "append", "create"),
        5: ("create_in", "append", "overwrite", "create_in"),
    }[difficulty]
    folder = v.word() if difficulty > 1 else ""
    before: Files = {}
    after: Files = {}
    clauses: list[str] = []
    calls: list[Call] = []
    split_mkdir = difficulty == 2 and v.chance(0.5)
    for kind in plan:
        path, text = v.file(), v.text()
        if kind in ("append", "overwrite"):
            before[path] = after[path] = lines(v.name())
        path = f"{folder}/{path}" if kind == "create_in" else path
        clauses.append(v.pick(WRITE_CLAUSES[kind]).format(path=path, text=text))
        made = f"mkdir -p {folder}"
        command = f"echo {text} {'>>' if kind == 'append' else '>'} {path}"
        if kind == "create_in" and not any(p.startswith(f"{folder}/") for p in after):
            calls += [shell(made)] if split_mkdir else []
            command = command if split_mkdir else f"{made} && {command}"
        calls.append(shell(command))
        after[path] = str(after[path]) + lines(text) if kind == "append" else lines(text)
    return Scene(sentence(*clauses), before, after, calls)


_CREATE = (
    "create the file {path} with the line {text}",
    "write the line {text} to the file {path}",
    "make a file called {path} that says {text}",
    "put the text {text} into a file named {path}",
)
WRITE_CLAUSES = {
    "create": _CREATE,
    "create_in": _CREATE,
    "append": (
        "append the line {text} to {path}",
        "add {text} as the last line of {path}",
        "put {text} at the end of {path}",
    ),
    "overwrite": (
        "replace the whole content of {path} with {text}",
        "overwrite {path} with just {text}",
        "make {path} hold just {text}",
    ),
}


def find_move(v: Values, difficulty: int) -> Scene:
    """Only the content tells which file is meant: search, then move, copy or delete it."""
    nested = difficulty >= 3
    folders = [v.word() for _ in range(2)] if nested else [""]
    paths = []
    for i in range(3 if difficulty < 4 else 4):
        folder = folders[i % len(folders)]
        paths.append(f"{folder}/{v.file()}" if folder else v.file())
    paths = v.shuffled(paths)
    before: Files = {path: lines(v.name(), v.name()) for path in paths}
    targets = ((1, None), (1, None), (1, None), (2, None), (1, 1))[difficulty - 1]
    word = v.name()
    first = paths[: targets[0]]
    _plant(v, before, first, word)
    after = dict(before)
    action = "delete" if difficulty == 1 else v.pick(("move", "copy") if nested else ("move",))
    goal = v.word() if action != "delete" else ""
    many = len(first) > 1
    clause = v.pick(FIND_CLAUSES[action]).format(
        which="every file" if many else "the file", word=word, goal=goal
    )
    clauses, calls = [clause], _find_calls(v, word, first, action, goal)
    _apply(after, first, action, goal)
    if targets[1]:
        other, second = v.name(), paths[2:3]
        for files in (before, after):
            files[second[0]] = lines(other, str(files[second[0]]).split()[0])
        clauses.append(v.pick(FIND_CLAUSES["delete"]).format(which="the file", word=other))
        calls += _find_calls(v, other, second, "delete", "")
        _apply(after, second, "delete", "")
    return Scene(sentence(*clauses), before, after, calls)


FIND_CLAUSES = {
    "delete": (
        "delete {which} that contains the word {word}",
        "search for {which} with {word} in it and delete just that",
        "remove {which} in which {word} occurs",
    ),
    "move": (
        "move {which} that contains {word} into the directory {goal}",
        "search for {which} with {word} in it and move it to {goal}/",
        "put {which} in which {word} occurs into a directory {goal}",
    ),
    "copy": (
        "copy {which} that contains {word} into the directory {goal}",
        "search for {which} with {word} in it and copy it to {goal}/",
        "make a directory {goal} holding a copy of {which} in which {word} occurs",
    ),
}


def _plant(v: Values, files: Files, paths: list[str], word: str) -> None:
    for path in paths:
        kept = str(files[path]).split()[0]
        files[path] = lines(*v.shuffled([kept, word]))


def _apply(after: Files, paths: list[str], action: str, goal: str) -> None:
    for path in paths:
        data = after[path] if action == "copy" else after.pop(path)
        if action != "delete":
            after[f"{goal}/{path.rsplit('/', 1)[-1]}"] = data


def _find_calls(v: Values, word: str, paths: list[str], action: str, goal: str) -> list[Call]:
    """Look first; what `grep` prints names the files to act on."""
    named = " ".join(sorted(paths))
    verb = {"delete": "rm", "move": "mv", "copy": "cp"}[action]
    act = f"{verb} {named}" + (f" {goal}" if goal else "")
    make = f"mkdir -p {goal}"
    look = shell(f"grep -rl {word} .")
    if not goal:
        return [look, shell(act)]
    return [look, shell(make), shell(act)] if v.chance(0.5) else [look, shell(f"{make} && {act}")]


def edit_config(v: Values, difficulty: int) -> Scene:
    """Change `key=value` settings; later the file must be found and a longer key left alone."""
    many = difficulty >= 3
    keys = [v.name() for _ in range(6 if many else 3)]
    names = [v.file("cfg") for _ in range(2 if many else 1)]
    tables = [keys[i * 3 : i * 3 + 3] for i in range(len(names))]
    settings = {n: {k: v.number() for k in t} for n, t in zip(names, tables, strict=True)}
    before_tables = {name: dict(table) for name, table in settings.items()}
    count = {1: 1, 2: 2, 3: 1, 4: 1, 5: 2}[difficulty]
    homes = v.shuffled(names)
    asked = [
        (home, v.pick(list(settings[home]))) for home in (homes[:count] if many else homes[:1])
    ]
    if difficulty == 2:
        asked = [(names[0], key) for key in v.sample(keys, 2)]
    if difficulty >= 4:  # a key that begins like the one asked for, in the other file too
        home, key = asked[0]
        for name in names:
            longer = f"{key}_max" if name == home else f"{key}_min"
            before_tables[name][longer] = settings[name][longer] = v.number()
    clauses, calls = [], []
    for home, key in asked:
        new = v.number()
        settings[home][key] = new
        where = "the .cfg file that has it" if many else home
        clauses.append(v.pick(EDIT_CLAUSES).format(key=key, new=new, where=where))
        sed = shell(f"sed -i 's/^{key}=.*/{key}={new}/' {home}")
        calls += [shell(f"grep -l ^{key}= *.cfg"), sed] if many else [sed]
    if not many and v.chance(0.5):
        calls = [shell(f"cat {names[0]}"), *calls]

    def render(tables: dict[str, dict[str, int]]) -> Files:
        return {n: lines(*(f"{k}={x}" for k, x in t.items())) for n, t in tables.items()}

    return Scene(sentence(*clauses), render(before_tables), render(settings), calls)


EDIT_CLAUSES = (
    "set the value of {key} to {new} in {where}",
    "change the setting {key} to {new} in {where}",
    "in {where}, give the key {key} the value {new}",
    "edit {where} so that {key} is {new}",
)


def tarball(members: dict[str, str]) -> bytes:
    """A tar archive with fixed owner, mode and time, so its bytes depend on nothing else.

    Texts are at most 512 bytes. The end is two zero blocks, as the format asks, without the
    padding to 10 KiB that `tarfile` adds.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(text.encode()), 1_700_000_000, 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()[: (len(members) * 2 + 2) * tarfile.BLOCKSIZE]


def archive(v: Values, difficulty: int) -> Scene:
    """Take members out of tar archives; later the listing or the content tells which."""
    extensions = v.sample(EXTENSIONS, 4)
    members = {v.file(ext): lines(v.text()) for ext in extensions[:3]}
    wanted = v.pick(list(members))
    ext = wanted.rsplit(".", 1)[1]
    name, folder = v.file("tar"), v.word()
    before: Files = {name: tarball(members)}
    after = dict(before)
    unpacked: Files = {f"{folder}/{m}": text for m, text in members.items()}
    phrase = v.pick(ARCHIVE_PHRASES[difficulty])
    make = f"mkdir -p {folder}"
    if difficulty in (1, 3):
        after[wanted] = members[wanted]
        calls = [shell(f"tar -xf {name} {wanted}")]
        if difficulty == 3:
            calls = [shell(f"tar -tf {name}"), *calls]
    elif difficulty == 2:
        after |= unpacked
        unpack = f"tar -xf {name} -C {folder}"
        calls = v.pick([[shell(make), shell(unpack)], [shell(f"{make} && {unpack}")]])
    elif difficulty == 4:
        after |= unpacked
        del after[f"{folder}/{wanted}"]
        word = members[wanted].strip().split()[0]
        calls = [
            shell(f"{make} && tar -xf {name} -C {folder}"),
            shell(f"grep -l {word} {folder}/*"),
            shell(f"rm {folder}/{wanted}"),
        ]
        return Scene(phrase.format(name=name, folder=folder, word=word), before, after, calls)
    else:
        other = v.file("tar")
        before[other] = tarball({v.file(extensions[3]): lines(v.text()) for _ in range(2)})
        after = {other: before[other], f"{folder}/{wanted}": members[wanted]}
        looks = [shell(f"tar -tf {archive}") for archive in sorted(before)]
        calls = [
            *looks,
            shell(f"{make} && tar -xf {name} -C {folder} {wanted}"),
            shell(f"rm {name}"),
        ]
        names = " and ".join(sorted(before))
        return Scene(phrase.format(names=names, ext=ext, folder=folder), before, after, calls)
    text = phrase.format(name=name, member=wanted, folder=folder, ext=ext)
    return Scene(text, before, after, calls)


ARCHIVE_PHRASES = {
    1: (
        "Extract only the file {member} from the archive {name}.",
        "Take {member} out of {name} into the current directory, nothing else.",
        "The archive {name} holds {member}; unpack just that file here.",
    ),
    2: (
        "Unpack the whole archive {name} into a new directory {folder}.",
        "Make a directory {folder} and extract all of {name} there.",
        "Extract everything in {name} to the directory {folder}.",
    ),
    3: (
        "Extract only the .{ext} file from the archive {name} into this directory.",
        "The archive {name} holds one .{ext} file; unpack just that file here.",
        "List {name} and take out the file that ends in .{ext}, nothing else.",
    ),
    4: (
        "Unpack {name} into a directory {folder}, then delete the file there that contains {word}.",
        "Extract all of {name} to {folder}, except that the file with {word} in it must go.",
        "Fill a directory {folder} from {name} and remove the one file that says {word}.",
    ),
    5: (
        "One of {names} holds a .{ext} file. Extract that file to {folder} and delete its archive.",
        "Look into {names}: unpack the .{ext} file into {folder}, then remove that archive.",
        "Find the .{ext} file in {names}, extract only it to {folder} and delete the tar it is in.",
    ),
}
