rtx_add_test(e2e_canonical e2e/canonical_test.cpp LABEL e2e LINKS rtx_frontend rtx_passes)
rtx_add_test(e2e_rtx_opt e2e/rtx_opt_test.cpp LABEL e2e LINKS rtx_passes)
add_dependencies(e2e_rtx_opt rtx-opt)
target_compile_definitions(e2e_rtx_opt PRIVATE RTX_OPT="$<TARGET_FILE:rtx-opt>")
