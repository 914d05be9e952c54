rtx_add_test(golden_ir golden/golden_test.cpp equivalence.cpp LINKS rtx_passes LABEL golden)
target_include_directories(golden_ir PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
