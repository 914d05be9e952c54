# rtx_add_library(folder LINKS targets...): the static library rtx_<folder> ('/' becomes '_') of all .cpp files directly
# in <folder> and in its family folders (ir/ops), but not of folders that are targets of their own.

add_library(rtx_options INTERFACE)
target_include_directories(rtx_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(rtx_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off
                       $<$<BOOL:${RTX_WERROR}>:-Werror>)
target_compile_definitions(rtx_options INTERFACE RTX_VERSION="${PROJECT_VERSION}")
if(RTX_SANITIZE)
  target_compile_options(rtx_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                         -fno-omit-frame-pointer)
  target_link_options(rtx_options INTERFACE -fsanitize=address,undefined)
  if(RTX_FUZZ)
    target_compile_options(rtx_options INTERFACE -fsanitize=fuzzer-no-link)
  endif()
else()
  # A release binary needs only libc, so that what is built on one machine runs on another.
  target_link_options(rtx_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

function(rtx_add_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINKS")
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(folder STREQUAL "ir" OR folder STREQUAL "frontend" OR folder STREQUAL "codegen")
    file(GLOB family_sources CONFIGURE_DEPENDS ${folder}/*/*.cpp)
    list(APPEND sources ${family_sources})
  endif()
  if(NOT sources)
    add_library(rtx_${name} INTERFACE)
    return()
  endif()
  add_library(rtx_${name} STATIC ${sources})
  target_link_libraries(rtx_${name} PUBLIC rtx_options ${arg_LINKS})
endfunction()
