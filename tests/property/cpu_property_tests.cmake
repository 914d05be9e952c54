rtx_add_test(property_cpu property/cpu_property_test.cpp property/random_module.cpp LABEL property
             LINKS rtx_runtime_cpu)
