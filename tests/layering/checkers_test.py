#!/usr/bin/env python3
"""The checkers of this folder, run on small trees with planted mistakes: each must be found, at its line."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
import check_error_ids  # noqa: E402
import check_includes  # noqa: E402
import check_standalone  # noqa: E402
import check_test_names  # noqa: E402
import dependencies  # noqa: E402


class Tree:
    """A throw-away tree of files."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in files.items():
            path = pathlib.Path(self.folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def __enter__(self):
        return pathlib.Path(self.folder.name)

    def __exit__(self, *_):
        self.folder.cleanup()


class Includes(unittest.TestCase):
    def complaints(self, files):
        with Tree(files) as root:
            return check_includes.check_includes(root)[0]

    def test_allowed_includes_pass(self):
        self.assertEqual([], self.complaints({
            "base/text.h": "#include <string>\n",
            "ir/dim.h": '#include "base/text.h"\n',
            "passes/fold.cpp": '#include "ir/dim.h"\n',
            "cli/rtx_run.cpp": "#include <CLI/CLI.hpp>\n",
        }))

    def test_an_arrow_against_the_table_is_found(self):
        found = self.complaints({"ir/dim.h": "#pragma once\n", "base/a.h": '#include <map>\n#include "ir/dim.h"\n'})
        self.assertEqual(["base/a.h:2: error: 'base' may not include 'ir' (\"ir/dim.h\")"], found)

    def test_a_nested_folder_is_a_layer_of_its_own(self):
        found = self.complaints({"runtime/device.h": "\n", "runtime/package/a.cpp": '#include "runtime/device.h"\n'})
        self.assertEqual(1, len(found))
        self.assertIn("'runtime/package' may not include 'runtime'", found[0])

    def test_rtx_run_may_not_see_the_compiler(self):
        files = {"ir/dim.h": "\n", "cli/rtx_run.cpp": '#include "ir/dim.h"\n', "cli/rtx_opt.cpp": '#include "ir/dim.h"\n'}
        found = self.complaints(files)
        self.assertEqual(["cli/rtx_run.cpp:1: error: 'cli/rtx_run.cpp' may not include 'ir' (\"ir/dim.h\")"], found)

    def test_a_library_in_the_wrong_folder_is_found(self):
        found = self.complaints({"ir/dim.cpp": "#include <fmt/core.h>\n"})
        self.assertEqual(["ir/dim.cpp:1: error: 'ir' may not include fmt headers (<fmt/core.h>)"], found)

    def test_a_header_of_no_known_kind_is_found(self):
        self.assertIn("no known kind", self.complaints({"base/a.cpp": "#include <sqlite3.h>\n"})[0])

    def test_an_include_that_is_not_from_the_root_is_found(self):
        found = self.complaints({"ir/dim.h": "\n", "ir/dim.cpp": '#include "dim.h"\n'})
        self.assertIn("written from the root", found[0])

    def test_a_folder_without_a_row_is_found(self):
        self.assertIn("no row", self.complaints({"utils/a.h": "\n"})[0])

    def test_cuda_text_inside_a_raw_string_is_no_include(self):
        text = 'auto text = R"cuda(\n#include <cuda_fp16.h>\n)cuda";\n#include <cuda_fp16.h>\n'
        self.assertEqual(1, len(found := self.complaints({"codegen/a.cpp": text})))
        self.assertTrue(found[0].startswith("codegen/a.cpp:4:"))

    def test_a_link_against_the_table_is_found(self):
        with Tree({"CMakeLists.txt": "rtx_add_library(base)\nrtx_add_library(ir LINKS rtx_base rtx_passes)\n"}) as root:
            self.assertEqual(["CMakeLists.txt:2: error: 'ir' may not link 'passes'"], check_includes.check_links(root))


class Standalone(unittest.TestCase):
    def complaints(self, name, text):
        return list(check_standalone.complaints_about(name, text.encode()))

    def test_a_home_folder_is_found(self):
        home = "/" + "home/somebody/model.onnx"
        found = self.complaints("docs/a.md", f"first\nsee {home}\n")
        self.assertEqual([f"docs/a.md:2: error: names '{'/' + 'home/somebody'}', a folder outside the repository"], found)

    def test_a_way_out_of_the_root_is_found(self):
        up = "../"
        self.assertEqual(1, len(self.complaints("docs/a.md", f"see {up}{up}notes.md\n")))
        self.assertEqual([], self.complaints("docs/a.md", f"see {up}README.md\n"))

    def test_system_folders_and_formulas_pass(self):
        self.assertEqual([], self.complaints("a.md", "/usr/local/cuda, seq/data/2, build/mnt/x, /tmp\n"))


class ErrorIds(unittest.TestCase):
    def complaints(self, source, rows):
        table = "".join(f"| {row} | invalid | what | do |\n" for row in rows)
        with Tree({"ir/a.cpp": source, "docs/errors.md": table}) as root:
            return check_error_ids.complaints(root)

    def test_equal_lists_pass(self):
        self.assertEqual([], self.complaints('f("E101"); g("W201"); h("axis_c1")', ["E101", "W201", "axis_c1"]))

    def test_an_id_without_a_row_is_found(self):
        self.assertEqual(["ir/a.cpp:2: error: 'E102' is not in docs/errors.md"], self.complaints('"E101"\n"E102"', ["E101"]))

    def test_a_row_without_a_use_is_found(self):
        self.assertEqual(["docs/errors.md: error: nothing uses 'E102'"], self.complaints('"E101"', ["E101", "E102"]))

    def test_a_wrong_order_and_a_repetition_are_found(self):
        self.assertEqual(1, len(self.complaints('"E101" "E102"', ["E102", "E101"])))
        self.assertEqual(1, len(self.complaints('"E101"', ["E101", "E101"])))


class Dependencies(unittest.TestCase):
    def test_an_incomplete_entry_is_found(self):
        found = dependencies.incomplete(dependencies.read("- name: a\n  source: pypi\n  group: oracle\n"))
        self.assertIn("'a': 'version' is missing", found)
        self.assertIn("'a': 'licence' is missing", found)

    def test_a_package_that_setup_names_itself_is_found(self):
        for line in ("apt-get -o A=b install -y libfoo-dev", "  apt_install libfoo-dev", "python -m pip install libfoo-dev"):
            found = dependencies.named_in_setup('apt_install "${packages[@]}"\n' + line)
            self.assertEqual(1, len(found), line)
            self.assertIn("libfoo-dev", found[0])


class TestNames(unittest.TestCase):
    def complaints(self, text):
        with Tree({"tests/unit/a_test.cpp": text}) as root:
            return check_test_names.complaints(root)

    def test_names_without_semicolons_pass(self):
        self.assertEqual([], self.complaints(
            'TEST_CASE("one, two") {\n  const char* text = "a; b";\n  SUBCASE("with \\" quotes") { f("c;"); }\n}\n'))

    def test_a_semicolon_is_found_at_its_line(self):
        found = self.complaints('\nTEST_CASE("one; two") {}\n')
        self.assertEqual(["tests/unit/a_test.cpp:2: error: the name of a test holds ';': \"one; two\""], found)

    def test_every_macro_and_joined_literals_are_looked_at(self):
        found = self.complaints('TEST_CASE_FIXTURE(ns::Type, "a;") {}\nTEST_CASE_TEMPLATE("b;", T, int) {}\n'
                                'TEST_CASE(\n    "c "\n    "d;") {\n  SUBCASE("e;") {}\n}\nSCENARIO("f;") {}\n')
        self.assertEqual([1, 2, 3, 6, 8], [int(line.split(":")[1]) for line in found])

    def test_a_pattern_that_finds_no_test_at_all_is_an_error(self):
        self.assertEqual(1, len(self.complaints("int x;\n")))


if __name__ == "__main__":
    unittest.main()
