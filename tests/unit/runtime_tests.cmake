rtx_add_test(unit_runtime unit/bind_symbols_test.cpp unit/cuda_device_test.cpp unit/session_test.cpp
             unit/tensors_test.cpp LINKS rtx_runtime)
