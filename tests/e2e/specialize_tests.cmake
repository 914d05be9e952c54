rtx_add_test(e2e_specialize e2e/specialize_test.cpp LABEL e2e LINKS rtx_base nlohmann_json::nlohmann_json)
add_dependencies(e2e_specialize rtx-compile rtx-inspect rtx-run)
target_compile_definitions(e2e_specialize PRIVATE RTX_COMPILE="$<TARGET_FILE:rtx-compile>" RTX_RUN="$<TARGET_FILE:rtx-run>"
                           RTX_INSPECT="$<TARGET_FILE:rtx-inspect>")
