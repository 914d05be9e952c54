rtx_add_test(unit_ops unit/ops_test.cpp LINKS rtx_ir)
