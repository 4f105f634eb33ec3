#!/usr/bin/env python3
"""Runs unit tests: builds them with cargo, and runs as many test programs at a time
as there are processors.  The arguments are those of cargo test.

cargo runs one program after the other. Many tests wait for a timer or a socket, so
the processors were idle for half of that time.  The output of a program appears when
it has ended; the exit code is 1 if any has failed.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path


def test_programs():
    """Builds the tests.  Returns the programs and the folders of their crates."""
    build = subprocess.run(
        ["cargo", "test", *sys.argv[1:], "--no-run", "--message-format", "json-render-diagnostics"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if build.returncode != 0:
        sys.exit(build.returncode)
    messages = [json.loads(line) for line in build.stdout.splitlines() if line.startswith("{")]
    return [
        (message["executable"], Path(message["manifest_path"]).parent)
        for message in messages
        if message["reason"] == "compiler-artifact"
        and message["profile"]["test"]
        and message["executable"]
    ]


def run(program, folder):
    """Runs a program as cargo does, in the folder of its crate."""
    started = time.monotonic()
    ended = subprocess.run(
        [program],
        cwd=folder,
        env={**os.environ, "CARGO_MANIFEST_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return ended, time.monotonic() - started


def main():
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(run, *program): program for program in test_programs()}
        for finished in as_completed(runs):
            program, folder = runs[finished]
            ended, seconds = finished.result()
            name = f"{folder.name}: {Path(program).name}"
            print(f"     Running {name} ({seconds:.1f} s)\n{ended.stdout}", flush=True)
            if ended.returncode != 0:
                failed.append(f"{name} (exit code {ended.returncode})")
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
