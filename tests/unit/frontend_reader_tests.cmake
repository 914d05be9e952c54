rtx_add_test(unit_frontend_reader unit/frontend_wire_scan_test.cpp unit/frontend_tensor_data_test.cpp
             unit/frontend_external_data_test.cpp unit/frontend_read_graph_test.cpp LINKS rtx_frontend)
