rtx_add_test(unit_passes unit/passes_test.cpp unit/near_match_test.cpp unit/precision_test.cpp
             unit/reduce_module_test.cpp LINKS rtx_passes)
