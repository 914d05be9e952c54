rtx_add_test(property_codegen property/codegen_property_test.cpp property/plan_runner.cpp property/random_module.cpp
             kernels/emulator.cpp LABEL property LINKS rtx_codegen)
