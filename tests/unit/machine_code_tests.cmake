rtx_add_test(unit_machine_code unit/machine_code_test.cpp LINKS rtx_codegen)
find_path(RTX_CUDA_OCCUPANCY_DIR cuda_occupancy.h
          HINTS ${PROJECT_SOURCE_DIR}/.deps/cuda/include $ENV{CUDA_HOME}/include /usr/local/cuda/include
          DOC "Folder of NVIDIA's occupancy calculator, the oracle of ours")
if(RTX_CUDA_OCCUPANCY_DIR)
  target_include_directories(unit_machine_code SYSTEM PRIVATE ${RTX_CUDA_OCCUPANCY_DIR})
  target_compile_definitions(unit_machine_code PRIVATE RTX_CUDA_OCCUPANCY)
endif()

# Has a main of its own, because it is also the worker that it starts. Skipped, not passed, without NVRTC.
add_executable(unit_compile_kernels unit/compile_kernels_test.cpp unit/compile_products_test.cpp
               unit/compile_attention_test.cpp)
target_link_libraries(unit_compile_kernels PRIVATE doctest::doctest rtx_options rtx_codegen)
find_program(RTX_FATBINARY fatbinary HINTS ${PROJECT_SOURCE_DIR}/.deps/cuda/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin
             DOC "NVIDIA's fatbin writer, the oracle of ours")
if(RTX_FATBINARY)
  target_compile_definitions(unit_compile_kernels PRIVATE RTX_FATBINARY="${RTX_FATBINARY}")
endif()
doctest_discover_tests(unit_compile_kernels TEST_PREFIX "unit_compile_kernels: "
                       PROPERTIES LABELS unit SKIP_REGULAR_EXPRESSION "skipped: ")
