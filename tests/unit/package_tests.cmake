rtx_add_test(unit_package unit/formula_test.cpp unit/manifest_test.cpp unit/package_test.cpp
             LINKS rtx_runtime_package)
