rtx_add_test(unit_cpu unit/cpu_elementwise_test.cpp unit/cpu_ops_test.cpp unit/cpu_matmul_test.cpp unit/cpu_math_test.cpp
             unit/cpu_device_test.cpp unit/cpu_thread_pool_test.cpp LINKS rtx_runtime_cpu)
