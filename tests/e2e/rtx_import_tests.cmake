rtx_add_test(e2e_rtx_import e2e/rtx_import_test.cpp e2e/hostile_file_test.cpp e2e/hostile_graph_test.cpp
             e2e/hostile_node_test.cpp e2e/hostile_tensor_test.cpp e2e/import_limits_test.cpp
             LABEL e2e LINKS rtx_frontend)
add_dependencies(e2e_rtx_import rtx-import)
target_compile_definitions(e2e_rtx_import PRIVATE RTX_IMPORT="$<TARGET_FILE:rtx-import>"
                           RTX_SANITIZED=$<BOOL:${RTX_SANITIZE}>)

rtx_add_test(e2e_rtx_import_support e2e/rtx_import_support_test.cpp LABEL e2e LINKS rtx_frontend)
add_dependencies(e2e_rtx_import_support rtx-import)
target_compile_definitions(e2e_rtx_import_support PRIVATE RTX_IMPORT="$<TARGET_FILE:rtx-import>")

rtx_add_test(e2e_rtx_import_dims e2e/rtx_import_dims_test.cpp LABEL e2e LINKS rtx_frontend)
add_dependencies(e2e_rtx_import_dims rtx-import rtx-compile)
target_compile_definitions(e2e_rtx_import_dims PRIVATE RTX_IMPORT="$<TARGET_FILE:rtx-import>"
                                                       RTX_COMPILE="$<TARGET_FILE:rtx-compile>")
