#!/usr/bin/env python3
"""Checks that no name of a test holds a ';': CMake lists end at it, so ctest makes two tests of one, which run nothing.

    check_test_names.py ROOT

Looks at the names that doctest's macros in tests/ register. Complaints go to stdout as file:line; the exit status is 1 if
there are any.
"""

import pathlib
import re
import sys

# TEST_CASE("..."), SUBCASE("..."), TEST_CASE_FIXTURE(Type, "..."), TEST_CASE_TEMPLATE("...", T, ...) and the like; the name
# may be several literals after one another.
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
REGISTERED = re.compile(rf"\b(?:TEST_CASE|SUBCASE|TEST_SUITE|SCENARIO)\w*\s*\(\s*(?:[\w:<>]+\s*,\s*)?({LITERAL}(?:\s*{LITERAL})*)")


def complaints(root):
    found = []
    names = 0
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in (".cpp", ".h", ".inc"):
            continue
        text = path.read_text()
        for match in REGISTERED.finditer(text):
            names += 1
            if ";" in match[1]:
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(root)}:{line}: error: the name of a test holds ';': {match[1]}")
    if names == 0:
        found.append("tests: error: no test is registered; the pattern of this checker no longer fits")
    return found


def main():
    found = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "no name of a test holds ';'")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
