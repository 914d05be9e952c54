add_executable(example_run_package ${PROJECT_SOURCE_DIR}/examples/run_package.cpp)
target_link_libraries(example_run_package PRIVATE rtx_runtime rtx_runtime_cpu)

rtx_add_test(e2e_rtx_run e2e/embedding_test.cpp e2e/rtx_run_test.cpp LABEL e2e LINKS rtx_runtime_package)
add_dependencies(e2e_rtx_run example_run_package rtx-inspect rtx-run)
target_compile_definitions(e2e_rtx_run PRIVATE RTX_RUN="$<TARGET_FILE:rtx-run>" RTX_INSPECT="$<TARGET_FILE:rtx-inspect>"
                           RTX_EXAMPLE="$<TARGET_FILE:example_run_package>"
                           RTX_SANITIZED=$<BOOL:${RTX_SANITIZE}>)
