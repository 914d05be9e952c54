rtx_add_test(property_transformer property/transformer_property_test.cpp property/plan_runner.cpp
             property/random_transformer.cpp equivalence.cpp LABEL property LINKS rtx_codegen rtx_runtime_cpu)
