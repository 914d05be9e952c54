rtx_add_test(unit_import unit/import_test.cpp unit/import_operators_test.cpp unit/import_symbolic_test.cpp
             unit/import_contrib_test.cpp unit/import_control_test.cpp unit/import_numerics_test.cpp
             unit/import_decoder_test.cpp unit/import_quantized_test.cpp unit/import_selection_test.cpp
             unit/import_loop_test.cpp unit/import_attention_test.cpp unit/import_movement_test.cpp
             LINKS rtx_frontend rtx_passes)
