rtx_add_test(golden_ir golden/golden_test.cpp equivalence.cpp LINKS rtx_passes LABEL golden)
