rtx_add_test(property_pass_time property/pass_time_test.cpp LABEL property LINKS rtx_codegen)
