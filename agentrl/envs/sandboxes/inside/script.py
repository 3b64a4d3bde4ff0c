"""Run a Python file in this very process, as `python3 FILE ARGS` would."""

import sys


def run_script(argv: "list[bytes]") -> int:
    """The exit code `python3 argv...` would have had; the caller then leaves the process at once.

    Not `runpy`: importing it takes longer than starting most scripts.
    """
    import builtins
    import os

    names = [os.fsdecode(word) for word in argv]
    path = names[0]
    sys.argv = names
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    for name in ("exit", "quit"):
        setattr(builtins, name, sys.exit)
    main = type(sys)("__main__")
    main.__dict__["__file__"] = path
    sys.modules["__main__"] = main
    code = _outcome(path, main.__dict__)
    try:
        if "threading" in sys.modules:
            getattr(sys.modules["threading"], "_shutdown")()  # noqa: B009
        import atexit

        getattr(atexit, "_run_exitfuncs")()  # noqa: B009
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = code or 120  # as the interpreter does when stdout cannot be flushed
    return code


def _outcome(path: str, namespace: "dict[str, object]") -> int:
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: {error}", file=sys.stderr)
        return 2
    try:
        exec(compile(source, path, "exec"), namespace)
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        shown = error.with_traceback(trace.tb_next if trace else None)  # without this frame
        sys.excepthook(type(shown), shown, shown.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0
