"""`agentrl report`: a run as one HTML page that stands alone, and as Markdown."""

import argparse
import json
import sys
from pathlib import Path

from agentrl.errors import ConfigError
from agentrl.run import figures, page, report
from agentrl.run.runs import find_run


def main(args: argparse.Namespace) -> int:
    """Write the page beside the runs, never into one; `args.viewer` says how an episode looks."""
    if args.examples < 0:
        raise ConfigError("--examples cannot be negative", where=f"--examples {args.examples}")
    folder = find_run(args.run, args.runs)
    told = report.read(folder)
    blocks = report.blocks(told, args.viewer.lines, args.examples)
    out = Path(args.out) if args.out else folder.parent / "reports"
    title = f"agentrl run {folder.name}"
    pages = {"html": page.html(title, blocks), "md": page.markdown(title, blocks)}
    files = {kind: out / f"{folder.name}.{kind}" for kind in pages}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for kind, text in pages.items():
            files[kind].write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the report: {error.strerror}",
            where=str(out),
            help="point `--out DIR` at a folder that can be written",
        ) from None
    drawn = figures.drawable()
    answer = {
        "run": folder.name,
        "html": str(files["html"]),
        "markdown": str(files["md"]),
        "bytes": len(pages["html"].encode()),
        "episodes": sum(isinstance(block, page.Transcript) for block in blocks),
        "figures": "drawn" if drawn else "text",
        "next": [f"agentrl replay {folder.name[-4:]}"],
    }
    if args.json:
        print(json.dumps(answer))
        return 0
    print(files["html"], files["md"], sep="\n")
    if not drawn and not args.quiet:
        told_how = "curves are text: `pip install 'agentrl[report]'` draws them"
        print(told_how, file=sys.stderr)
    return 0
