rtx_add_test(property_ir property/ir_property_test.cpp property/random_module.cpp LINKS rtx_passes
             LABEL property)
