rtx_add_test(e2e_rtx_run e2e/rtx_run_test.cpp LABEL e2e LINKS rtx_runtime_package)
add_dependencies(e2e_rtx_run rtx-run rtx-inspect)
target_compile_definitions(e2e_rtx_run PRIVATE RTX_RUN="$<TARGET_FILE:rtx-run>" RTX_INSPECT="$<TARGET_FILE:rtx-inspect>")
