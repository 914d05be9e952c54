rtx_add_test(unit_base unit/diagnostic_test.cpp unit/dtype_test.cpp unit/file_test.cpp unit/glob_test.cpp unit/nearest_name_test.cpp unit/npy_test.cpp
             unit/safetensors_test.cpp LINKS rtx_base)
