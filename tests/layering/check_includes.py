#!/usr/bin/env python3
"""Checks every include of the tree, and the link graph in CMakeLists.txt, against the table LAYERS below.

    check_includes.py ROOT

Complaints go to stderr as file:line; the exit status is 1 if there are any.
"""

import pathlib
import re
import sys

# What each folder may include: other folders (transitively listed, so a row can be read alone), and kinds of headers
# from outside. A file of its own in the table overrides its folder. Everything may include the standard library.
ANYTHING = "anything"
LAYERS = {
    "base": ([], ["posix", "json", "openssl", "zlib"]),
    "ir": (["base"], []),
    "frontend": (["ir", "base"], ["protobuf", "posix"]),
    "passes": (["ir", "base"], []),
    "kernels": ([], ["cuda"]),
    "codegen": (["kernels", "passes", "ir", "runtime/package", "base"], ["posix", "fmt"]),
    "runtime/package": (["base"], ["yaml"]),
    "runtime": (["runtime/package", "base"], ["posix"]),
    "runtime/cpu": (["runtime", "runtime/package", "ir", "base"], ["posix", "intrinsics"]),
    "cli": (["codegen", "frontend", "passes", "runtime/cpu", "runtime", "runtime/package", "ir", "base"],
            ["posix", "cli11", "fmt", "json"]),
    "cli/rtx_run.cpp": (["cli", "runtime/cpu", "runtime", "runtime/package", "base"], ["posix", "cli11", "fmt"]),
    "examples": (["runtime/cpu", "runtime", "runtime/package", "base"], []),
    "cmake": ([], ["fmt"]),
    "tests": (ANYTHING, ANYTHING),
    "bench": (ANYTHING, ANYTHING),
}

# Kinds of headers from outside; the first pattern that matches names the kind.
OUTSIDE = [
    ("posix", r"(dirent|dlfcn|elf|fcntl|fnmatch|ftw|link|poll|pthread|sched|signal|spawn|stdlib|termios|ucontext|unistd)"
              r"\.h|(sys|linux)/.*"),
    ("intrinsics", r"(immintrin|cpuid|x86intrin)\.h"),
    ("json", r"nlohmann/.*"),
    ("openssl", r"openssl/.*"),
    ("zlib", r"zlib\.h"),
    ("protobuf", r"google/protobuf/.*|rtx_onnx\.pb\.h"),
    ("yaml", r"yaml-cpp/.*"),
    ("cli11", r"CLI/.*"),
    ("fmt", r"fmt/.*"),
    ("cuda", r"(cuda|nvrtc|cublas|mma).*\.h"),
    ("tests", r"doctest/.*|rapidcheck.*|benchmark/.*"),
    ("standard", r"[a-z_0-9]+"),  # without '.h'
]

SOURCES = {".cpp", ".h", ".inc", ".def", ".cu", ".cuh"}
INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]*)[>"]""", re.M)
RAW_STRING = re.compile(r'R"([^()\\ ]{0,16})\(.*?\)\1"', re.S)  # the CUDA text that codegen writes has includes too


def layer_of(path):
    """The row of the table for a file, given from the root with '/' between folders: the longest that fits."""
    rows = [row for row in LAYERS if path == row or path.startswith(row + "/")]
    return max(rows, key=len, default=None)


def kind_of(header):
    return next((kind for kind, pattern in OUTSIDE if re.fullmatch(pattern, header)), None)


def complaint_about(root, path, quote, header):
    """What is wrong with one include of the file at path, or None."""
    layer = layer_of(path)
    folders, kinds = LAYERS[layer]
    kind = kind_of(header)
    if quote == '"' and kind != "protobuf":
        target = layer_of(header)
        if target is None or not (root / header).is_file():
            return f'"{header}" is not a file of this tree; includes are written from the root'
        if folders != ANYTHING and target != layer and target not in folders:
            return f"'{layer}' may not include '{target}' (\"{header}\")"
    elif kind is None:
        return f"<{header}> is a header of no known kind; add it to OUTSIDE in check_includes.py"
    elif kinds != ANYTHING and kind != "standard" and kind not in kinds:
        return f"'{layer}' may not include {kind} headers (<{header}>)"
    return None


def check_includes(root):
    complaints, files = [], 0
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.suffix not in SOURCES or path.startswith((".", "build/", "out/")) or not file.is_file():
            continue
        files += 1
        if layer_of(path) is None:
            complaints.append(f"{path}:1: error: this folder has no row in LAYERS of check_includes.py")
            continue
        text = RAW_STRING.sub(lambda match: re.sub(r"[^\n]", "", match[0]), file.read_text())
        for include in INCLUDE.finditer(text):
            complaint = complaint_about(root, path, include[1], include[2])
            if complaint:
                complaints.append(f"{path}:{text.count(chr(10), 0, include.start(2)) + 1}: error: {complaint}")
    return complaints, files


def check_links(root):
    """The targets of CMakeLists.txt may link only what their folders may include."""
    complaints = []
    targets = {"rtx_" + folder.replace("/", "_"): folder for folder in LAYERS}
    text = (root / "CMakeLists.txt").read_text()
    for call in re.finditer(r"^rtx_add_library\(([\w/]+)([^)]*)\)", text, re.M):
        folder = call[1]
        place = f"CMakeLists.txt:{text.count(chr(10), 0, call.start()) + 1}"
        if folder not in LAYERS:
            complaints.append(f"{place}: error: '{folder}' has no row in LAYERS of check_includes.py")
            continue
        linked = [targets[word] for word in call[2].split() if word in targets]
        complaints += [f"{place}: error: '{folder}' may not link '{other}'" for other in linked
                       if other not in LAYERS[folder][0]]
    return complaints


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    complaints, files = check_includes(root)
    complaints += check_links(root)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if files == 0:
        print(f"{root}: error: no source file found", file=sys.stderr)
    print(f"{files} files, {len(complaints)} complaints")
    return 1 if complaints or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
