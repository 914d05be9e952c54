#!/usr/bin/env python3
"""Checks that no file of the tree names a place outside of it: a folder of somebody's machine, or '../' above the root.

    check_standalone.py ROOT
"""

import pathlib
import re
import subprocess
import sys

# Folders where people keep their own things. System folders (/usr, /etc, /proc, /dev) may be named, /tmp as such, and
# 'someone' in examples.
OWN_FOLDER = re.compile(rb"(?<![\w.$}/*-])/(?:home|root|Users|work|opt|mnt|srv|media|data)/(?!someone\b)[\w.-]+")
UPWARDS = re.compile(rb"(?<![\w./])((?:\.\./)+)[\w.-]")


def files_of(root):
    """What git tracks or would track; without git, everything but hidden and build folders."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.decode().split("\0") if (root / name).is_file()]
    everything = [file.relative_to(root) for file in root.rglob("*") if file.is_file()]
    return [str(file) for file in everything if not re.match(r"\.|build|out", file.parts[0])]


def complaints_about(name, content):
    depth = name.count("/")
    for number, line in enumerate(content.split(b"\n"), 1):
        for found in OWN_FOLDER.finditer(line):
            yield f"{name}:{number}: error: names '{found[0].decode()}', a folder outside the repository"
        for found in UPWARDS.finditer(line):
            if found[1].count(b"..") > depth:
                yield f"{name}:{number}: error: '{found[1].decode()}' leads out of the repository"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = sorted(files_of(root))
    complaints = [complaint for name in names for complaint in complaints_about(name, (root / name).read_bytes())]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"{len(names)} files, {len(complaints)} complaints")
    return 1 if complaints or not names else 0


if __name__ == "__main__":
    sys.exit(main())
