rtx_add_test(device_contract kernels/device_contract_test.cpp LINKS rtx_runtime rtx_runtime_cpu)

# Skipped, never passed, on a machine without a GPU.
add_executable(cuda_device_gpu kernels/device_contract_gpu_test.cpp kernels/cuda_device_gpu_test.cpp)
target_link_libraries(cuda_device_gpu PRIVATE rtx_test_main rtx_options rtx_runtime)
doctest_discover_tests(cuda_device_gpu TEST_PREFIX "cuda_device_gpu: "
                       PROPERTIES LABELS gpu SKIP_REGULAR_EXPRESSION "skipped: ")

# Skipped, never passed, on a machine without a GPU. A main of its own: it is also the compiler's worker.
add_executable(attention_gpu kernels/attention_gpu.cpp)
target_link_libraries(attention_gpu PRIVATE rtx_options rtx_codegen rtx_runtime rtx_runtime_cpu)
add_test(NAME attention_gpu COMMAND attention_gpu)
set_tests_properties(attention_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 7)
