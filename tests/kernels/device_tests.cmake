rtx_add_test(device_contract kernels/device_contract_test.cpp LINKS rtx_runtime rtx_runtime_cpu)

# Skipped, never passed, on a machine without a GPU.
add_executable(device_contract_gpu kernels/device_contract_gpu_test.cpp)
target_link_libraries(device_contract_gpu PRIVATE rtx_test_main rtx_options rtx_runtime)
doctest_discover_tests(device_contract_gpu TEST_PREFIX "device_contract_gpu: "
                       PROPERTIES LABELS gpu SKIP_REGULAR_EXPRESSION "skipped: ")
