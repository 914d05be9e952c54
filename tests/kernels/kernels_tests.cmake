# Generated CUDA text, run on the CPU behind a shim.
rtx_add_test(kernels_emulated kernels/emulated_test.cpp kernels/emulator.cpp LABEL kernel LINKS rtx_codegen)
