rtx_add_test(device_contract kernels/device_contract_test.cpp LINKS rtx_runtime rtx_runtime_cpu)

# Skipped, never passed, on a machine without a GPU.
add_executable(cuda_device_gpu kernels/device_contract_gpu_test.cpp kernels/cuda_device_gpu_test.cpp)
target_link_libraries(cuda_device_gpu PRIVATE rtx_test_main rtx_options rtx_runtime)
doctest_discover_tests(cuda_device_gpu TEST_PREFIX "cuda_device_gpu: "
                       PROPERTIES LABELS gpu SKIP_REGULAR_EXPRESSION "skipped: ")
