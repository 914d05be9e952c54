rtx_add_test(unit_package unit/arena_layout_test.cpp unit/formula_test.cpp unit/manifest_test.cpp unit/package_test.cpp
             LINKS rtx_runtime_package)
