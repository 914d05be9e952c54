rtx_add_test(e2e_import_evaluate e2e/import_evaluate_test.cpp LABEL e2e LINKS rtx_frontend)
