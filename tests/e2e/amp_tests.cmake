rtx_add_test(e2e_amp e2e/amp_test.cpp LABEL e2e LINKS rtx_codegen rtx_frontend rtx_runtime_cpu)
