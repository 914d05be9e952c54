rtx_add_test(unit_dim unit/dim_test.cpp LINKS rtx_ir)
