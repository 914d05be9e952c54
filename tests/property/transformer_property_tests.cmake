rtx_add_test(property_transformer property/transformer_property_test.cpp property/plan_runner.cpp kernels/emulator.cpp
             property/random_transformer.cpp LABEL property LINKS rtx_codegen rtx_runtime_cpu)
# 10,000 modules, a few minutes: ctest -C long -L long (scripts/test_long.sh).
add_test(NAME property_transformer_long CONFIGURATIONS long COMMAND property_transformer)
set_tests_properties(property_transformer_long PROPERTIES LABELS long ENVIRONMENT RTX_PROPERTY_CASES=10000 TIMEOUT 3600)
