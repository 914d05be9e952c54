#!/usr/bin/env python3
"""docs/ops.md: the ONNX operators that rtx imports, and what the recorded runs in bench/results say of each.

    operators_page.py --tool build/dev/cli/rtx-import           writes it
    operators_page.py --tool build/dev/cli/rtx-import --check   fails if it is not what the tool and the records say
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

from readme_tables import DEVICES, ROOT, SUITES, newest

PAGE = ROOT / "docs/ops.md"
MOST_REASONS = 6  # of one operator
INTRODUCTION = """# ONNX operators

Written by `scripts/operators_page.py` from `rtx-import --list-ops --json` and the runs recorded in `bench/results`; do
not edit. [`import.md`](import.md) says how a model is imported, [`ir_ops.md`](ir_ops.md) what the operations of the IR
do. `rtx-import MODEL --check-support` prints the same of one model.

- **opsets**: the versions of the domain that one converter serves; `13-` means from 13 to the newest.
- **becomes**: the operations of the IR that the recorded cases came to; *nothing* where a node was always computed while
  importing, or is the same as its input.
- **cases**: the recorded cases whose model holds the operator: passed, failed, and refused because of this operator. A
  case that is refused because of another operator counts for that one only.
"""


def split(name):
    """"com.microsoft.Attention-1" -> ("com.microsoft", "Attention", 1)"""
    name, _, opset = name.rpartition("-")
    domain, _, operator = name.rpartition(".")
    return domain or "ai.onnx", operator, int(opset)


class Coverage:
    """What the records say of one operator, or of one form of it."""

    def __init__(self):
        self.operations = set()
        self.counts = {device: collections.Counter() for device in DEVICES}
        self.reasons = {}  # reason -> names of cases
        self.opsets = set()

    def cell(self, device, recorded):
        if not recorded:
            return "not recorded"
        counts = self.counts[device]
        texts = [f"{counts[status]} {word}" for status, word in
                 (("passed", "passed"), ("failed", "failed"), ("refused", "refused")) if counts[status]]
        return ", ".join(texts) or "none"

    def reason_cell(self):
        texts = []
        for reason, cases in list(sorted(self.reasons.items()))[:MOST_REASONS]:
            more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
            texts.append(f"{escaped(reason)} (`{min(cases)}`{more})")
        if len(self.reasons) > MOST_REASONS:
            texts.append(f"{len(self.reasons) - MOST_REASONS} more reasons")
        return "; ".join(texts)


def escaped(text):
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def form_of(forms, domain, operator, opset):
    """The key of the converter that serves this version, or None."""
    fitting = [form["since"] for form in forms.get((domain, operator), []) if form["since"] <= opset]
    return (domain, operator, max(fitting)) if fitting else None


class Page:
    def __init__(self, converters):
        self.forms = collections.defaultdict(list)
        for row in converters:
            self.forms[row["domain"], row["operator"]].append(row)
        self.supported = collections.defaultdict(Coverage)  # by domain, operator, since
        self.unknown = collections.defaultdict(Coverage)    # by domain, operator
        self.others = {}                                    # reason -> cases refused because of no operator
        self.recorded = set()                               # devices
        for suite in SUITES:
            self.read_suite(suite)

    def coverage(self, name):
        domain, operator, opset = split(name)
        key = form_of(self.forms, domain, operator, opset)
        coverage = self.supported[key] if key else self.unknown[domain, operator]
        coverage.opsets.add(opset)
        return coverage

    def read_suite(self, suite):
        records = {device: newest(f"*-{device}-conformance-{suite}.json") for device in DEVICES}
        # Every device's run holds the same models.
        cases = {}
        for record in records.values():
            for case in (record or {}).get("cases", []):
                if "operators" in case:
                    cases.setdefault(case["name"], case)
            for name, operations in (record or {}).get("ir_operations", {}).items():
                key = form_of(self.forms, *split(name))
                if key:
                    self.supported[key].operations.update(operations.split())
        for device, record in records.items():
            for case in (record or {}).get("cases", []):
                self.recorded.add(device)
                known = cases.get(case["name"])
                if known:
                    self.count(device, suite, case, known)

    def count(self, device, suite, case, known):
        refused = known.get("refused_operators", {})
        where = f"{suite}/{case['name']}"
        for name, reasons in refused.items():
            coverage = self.coverage(name)
            coverage.counts[device]["refused"] += 1
            for reason in reasons:
                coverage.reasons.setdefault(reason, set()).add(where)
        if case["status"] == "skipped":
            if not refused:
                self.others.setdefault(case["reason"], set()).add(where)
            return
        for name in known["operators"].split():
            if name not in refused:
                self.coverage(name).counts[device][case["status"]] += 1

    def lines(self):
        yield INTRODUCTION
        devices = " | ".join(DEVICES.values())
        domains = sorted({domain for domain, _ in self.forms} | {domain for domain, _ in self.unknown},
                         key=lambda domain: (domain != "ai.onnx", domain))
        for domain in domains:
            yield f"## {domain}\n"
            names = sorted(operator for d, operator in self.forms if d == domain)
            if names:
                yield f"| operator | opsets | becomes | {devices} | refused forms |"
                yield "|---|---|---|" + "---|" * len(DEVICES) + "---|"
            for operator in names:
                for form in self.forms[domain, operator]:
                    yield self.row(domain, operator, form)
            refused = sorted(operator for (d, operator), coverage in self.unknown.items() if d == domain and coverage.reasons)
            if refused:
                yield f"\nRefused:\n\n| operator | opsets | {devices} | reason |"
                yield "|---|---|" + "---|" * len(DEVICES) + "---|"
            for operator in refused:
                coverage = self.unknown[domain, operator]
                opsets = ", ".join(map(str, sorted(coverage.opsets)))
                counts = " | ".join(coverage.cell(device, device in self.recorded) for device in DEVICES)
                yield f"| `{operator}` | {opsets} | {counts} | {coverage.reason_cell()} |"
            yield ""
        if self.others:
            yield "## Cases that are refused because of no single operator\n"
            yield "| reason | cases |"
            yield "|---|---|"
            for reason, cases in sorted(self.others.items()):
                names = ", ".join(f"`{name}`" for name in sorted(cases)[:3]) + (", ..." if len(cases) > 3 else "")
                yield f"| {escaped(reason)} | {len(cases)}: {names} |"

    def row(self, domain, operator, form):
        coverage = self.supported[domain, operator, form["since"]]
        until = form["until"]
        opsets = f"{form['since']}-" if until is None else str(until) if until == form["since"] else f"{form['since']}-{until}"
        covered = any(coverage.counts[device]["passed"] + coverage.counts[device]["failed"] for device in DEVICES)
        becomes = " ".join(f"`{name}`" for name in sorted(coverage.operations)) or ("nothing" if covered else "")
        counts = " | ".join(coverage.cell(device, device in self.recorded) for device in DEVICES)
        return f"| `{operator}` | {opsets} | {becomes} | {counts} | {coverage.reason_cell()} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=pathlib.Path, required=True, help="the built rtx-import")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the page is out of date")
    arguments = parser.parse_args()
    listed = subprocess.run([arguments.tool, "--list-ops", "--json"], capture_output=True, text=True, check=True)
    text = "\n".join(Page(json.loads(listed.stdout)).lines()).rstrip() + "\n"
    if not arguments.check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/ops.md: error: it is not what rtx-import and bench/results say\n"
                 "  help: run scripts/operators_page.py --tool build/dev/cli/rtx-import")
    else:
        print("docs/ops.md is what rtx-import and bench/results say")


if __name__ == "__main__":
    main()
