#!/usr/bin/env python3
"""Checks that docs/errors.md lists exactly the ids of errors and warnings that the sources use, each once, in order.

    check_error_ids.py ROOT
"""

import pathlib
import re
import sys

FOLDERS = ("base", "ir", "frontend", "passes", "codegen", "runtime", "cli")
# An id is a string literal on its own: "E203", "W201", "matmul_c1", "op_dtype".
ID = r"([EW]\d{3,4}|[a-z_]+_c\d+|op_(?:operands|dtype|attributes))"
USED = re.compile(f'"{ID}"')
ROW = re.compile(rf"^\| {ID} \|")


def used_ids(root):
    """{id: first place}"""
    places = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".inc"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for found in USED.findall(line):
                    places.setdefault(found, f"{path.relative_to(root)}:{number}")
    return places


def order(error_id):
    """Numbered ids by letter and number, then the rules of operations by name."""
    numbered = re.fullmatch(r"([EW])(\d+)", error_id)
    return (0, numbered[1], int(numbered[2]), "") if numbered else (1, "", 0, error_id)


def complaints(root):
    used = used_ids(root)
    listed = [m[1] for m in map(ROW.match, (root / "docs/errors.md").read_text().splitlines()) if m]
    found = [f"{used[i]}: error: '{i}' is not in docs/errors.md" for i in sorted(used.keys() - set(listed), key=order)]
    found += [f"docs/errors.md: error: nothing uses '{i}'" for i in sorted(set(listed) - used.keys(), key=order)]
    found += [f"docs/errors.md: error: '{i}' is listed twice" for i in sorted({i for i in listed if listed.count(i) > 1})]
    if not found and listed != sorted(listed, key=order):
        found.append("docs/errors.md: error: the rows are not in the order of their ids")
    return found


def main():
    found = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "docs/errors.md lists every id")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
