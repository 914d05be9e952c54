rtx_add_test(golden_codegen golden/codegen_golden_test.cpp LABEL golden LINKS rtx_codegen)
