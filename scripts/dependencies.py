#!/usr/bin/env python3
"""Reads dependencies.yaml for setup.sh and checks it. Needs nothing but Python 3.9.

    dependencies.py apt GROUP           Debian packages of a group, one a line
    dependencies.py requirements GROUP  pinned and hashed requirements of a group, as pip reads them
    dependencies.py field NAME KEY      one field of one dependency
    dependencies.py check               every entry is complete, installed versions are the listed ones, and setup.sh
                                        installs nothing by name
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMON = {"name", "source", "group", "licence", "linked", "reason"}
FIELDS = {  # source: (required, optional)
    "debian": ({"packages", "debian12", "ubuntu2404"}, set()),
    "pypi": ({"version", "sha256"}, {"pypi_name", "member", "member_sha256"}),
}
GROUPS = {"debian": {"build", "dev", "fuzz"}, "pypi": {"oracle", "nvrtc", "gpu", "quickstart"}}
LINKED = {"static", "header", "loaded", "test", "none"}


def read(text):
    """The entries of a list of flat maps; a value is a string or an inline list of strings."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(- |  )([a-z0-9_]+): (.+)", line)
        if not match or (match[1] == "  " and not entries):
            raise SystemExit(f"dependencies.yaml:{number}: error: expected '- key: value' or '  key: value'")
        if match[1] == "- ":
            entries.append({})
        key, value = match[2], match[3].strip()
        if key in entries[-1]:
            raise SystemExit(f"dependencies.yaml:{number}: error: '{key}' is given twice")
        if value.startswith("["):
            value = [item.strip() for item in value.strip("[]").split(",")]
        entries[-1][key] = value
    return entries


def requirement(entry):
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in entry["sha256"])
    return f"{entry.get('pypi_name', entry['name'])}=={entry['version']} {hashes}"


def incomplete(entries):
    """Complaints about the list itself."""
    found = []
    names = [entry.get("name") for entry in entries]
    found += [f"'{name}' is listed twice" for name in sorted(set(names)) if names.count(name) > 1]
    for entry in entries:
        name, source = entry.get("name"), entry.get("source")
        if source not in FIELDS:
            found.append(f"'{name}': source is '{source}', not one of {sorted(FIELDS)}")
            continue
        required, optional = FIELDS[source]
        found += [f"'{name}': '{key}' is missing" for key in sorted((COMMON | required) - entry.keys())]
        found += [f"'{name}': '{key}' is not a field" for key in sorted(entry.keys() - COMMON - required - optional)]
        if entry.get("group") not in GROUPS[source]:
            found.append(f"'{name}': group is '{entry.get('group')}', not one of {sorted(GROUPS[source])}")
        if entry.get("linked") not in LINKED:
            found.append(f"'{name}': linked is '{entry.get('linked')}', not one of {sorted(LINKED)}")
        for digest in [*entry.get("sha256", []), entry.get("member_sha256", "0" * 64)]:
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                found.append(f"'{name}': '{digest}' is not a sha256")
    return found


def distribution():
    """'debian12', 'ubuntu2404' or another distribution's id and version."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.M))
    return release.get("ID", "") + release.get("VERSION_ID", "").replace(".", "")


def other_versions(entries):
    """Complaints about installed Debian packages whose version is not the listed one."""
    where, found = distribution(), []
    for entry in entries:
        listed = entry.get(where, "any")
        if entry["source"] != "debian" or listed == "any":
            continue
        for package in entry["packages"]:
            query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package]
            status = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
            if len(status) != 2 or status[0] != "installed":
                continue  # setup.sh installs it, or the group is not asked for
            installed = status[1].split(":")[-1].rsplit("-", 1)[0]
            if installed != listed:
                found.append(f"'{package}' is {installed} on this {where}, dependencies.yaml lists {listed}")
    return found


def named_in_setup(setup):
    """Complaints about packages that setup.sh names itself. It may name the Python that reads this list."""
    names = {"python3"}
    found = []
    for line in setup.splitlines():
        install = re.search(r"\b(?:apt_install|(?:apt-get|pip)\b.*? install) (.*)", line)
        if not install or line.lstrip().startswith("#"):
            continue
        for word in install[1].split():
            if re.fullmatch(r"[a-z][a-z0-9.+=-]*", word) and word not in names:
                found.append(f"scripts/setup.sh installs '{word}' by name: list it in dependencies.yaml instead")
    return found


def main(arguments):
    entries = read((ROOT / "dependencies.yaml").read_text())
    if len(arguments) == 2 and arguments[0] == "apt":
        for entry in entries:
            if entry["source"] == "debian" and entry["group"] == arguments[1]:
                print("\n".join(entry["packages"]))
    elif len(arguments) == 2 and arguments[0] == "requirements":
        for entry in entries:
            if entry["source"] == "pypi" and entry["group"] == arguments[1]:
                print(requirement(entry))
    elif len(arguments) == 3 and arguments[0] == "field":
        [entry] = [entry for entry in entries if entry["name"] == arguments[1]]
        print(entry[arguments[2]])
    elif arguments == ["check"]:
        found = incomplete(entries)
        if not found:
            found = other_versions(entries) + named_in_setup((ROOT / "scripts/setup.sh").read_text())
        for complaint in found:
            print(f"dependencies.yaml: error: {complaint}", file=sys.stderr)
        if found:
            return 1
        print(f"{len(entries)} dependencies, all complete")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
