
# The fixtures through import, compile and a device, at their recorded and other sizes; exit code 7 is "no device".
add_test(NAME conformance_cpu COMMAND rtx-conformance ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models --device cpu)
add_test(NAME conformance_gpu COMMAND rtx-conformance ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models --device cuda:0)
set_tests_properties(conformance_cpu PROPERTIES LABELS e2e)
set_tests_properties(conformance_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 7)

# Generated CUDA text, run on the CPU behind a shim.
rtx_add_test(kernels_emulated kernels/emulated_test.cpp kernels/emulator.cpp LABEL kernel LINKS rtx_codegen)
rtx_add_test(kernels_emulated_gemm kernels/emulated_gemm_test.cpp kernels/emulator.cpp LABEL kernel LINKS rtx_codegen)
rtx_add_test(kernels_emulated_tensor_core kernels/emulated_tensor_core_test.cpp kernels/emulator.cpp LABEL kernel
             LINKS rtx_codegen)
rtx_add_test(kernels_emulated_scratch kernels/emulated_scratch_test.cpp kernels/emulator.cpp LABEL kernel LINKS rtx_codegen)
rtx_add_test(kernels_attention kernels/attention_test.cpp kernels/emulator.cpp LABEL kernel LINKS rtx_codegen)
