# Checks of the tree itself.
rtx_add_script_test(layering tests/layering/check_includes.py ${PROJECT_SOURCE_DIR})
rtx_add_script_test(standalone tests/layering/check_standalone.py ${PROJECT_SOURCE_DIR})
rtx_add_script_test(error_ids tests/layering/check_error_ids.py ${PROJECT_SOURCE_DIR})
rtx_add_script_test(test_names tests/layering/check_test_names.py ${PROJECT_SOURCE_DIR})
rtx_add_script_test(readme_tables scripts/readme_tables.py --check)
rtx_add_script_test(operators_page scripts/operators_page.py --check --tool $<TARGET_FILE:rtx-import>)
rtx_add_script_test(dependencies scripts/dependencies.py check)
rtx_add_script_test(layering_negative_control tests/layering/checkers_test.py)
