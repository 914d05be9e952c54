rtx_add_test(golden_ir golden/golden_test.cpp golden/planted_rewrite_test.cpp golden/golden_check.cpp LINKS rtx_passes
             LABEL golden)
