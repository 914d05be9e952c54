rtx_add_test(unit_codegen unit/make_manifest_test.cpp unit/tuning_table_test.cpp unit/order_arena_test.cpp unit/plan_memory_test.cpp unit/strided_view_test.cpp LINKS rtx_codegen)
