rtx_add_test(e2e_rtx_compile e2e/rtx_compile_test.cpp LABEL e2e LINKS rtx_frontend)
add_dependencies(e2e_rtx_compile rtx-compile rtx-conformance rtx-import)
target_compile_definitions(e2e_rtx_compile PRIVATE RTX_COMPILE="$<TARGET_FILE:rtx-compile>" RTX_IMPORT="$<TARGET_FILE:rtx-import>"
                           RTX_CONFORMANCE="$<TARGET_FILE:rtx-conformance>")

rtx_add_test(e2e_if_model e2e/if_model_test.cpp LABEL e2e LINKS rtx_frontend)
add_dependencies(e2e_if_model rtx-compile rtx-inspect rtx-run)
target_compile_definitions(e2e_if_model PRIVATE RTX_COMPILE="$<TARGET_FILE:rtx-compile>" RTX_RUN="$<TARGET_FILE:rtx-run>"
                           RTX_INSPECT="$<TARGET_FILE:rtx-inspect>")

rtx_add_test(e2e_why e2e/why_test.cpp LABEL e2e LINKS rtx_base)
add_dependencies(e2e_why rtx-compile rtx-inspect)
target_compile_definitions(e2e_why PRIVATE RTX_COMPILE="$<TARGET_FILE:rtx-compile>" RTX_INSPECT="$<TARGET_FILE:rtx-inspect>")

rtx_add_test(e2e_report e2e/report_test.cpp LABEL e2e LINKS rtx_base)
add_dependencies(e2e_report rtx-compile)
target_compile_definitions(e2e_report PRIVATE RTX_COMPILE="$<TARGET_FILE:rtx-compile>")
