# The libraries rtx builds on; versions, licences and reasons stand in dependencies.yaml.

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL REQUIRED)

set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)

set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)

set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)

# The ONNX schema of the pinned `onnx` Python package. Its proto package is renamed so that the generated classes never
# meet those of another ONNX library in one process.
find_path(RTX_ONNX_PROTO_DIR onnx/onnx.proto
          HINTS ${PROJECT_SOURCE_DIR}/.deps/onnx-schema REQUIRED
          DOC "Folder that holds onnx/onnx.proto; scripts/setup.sh puts it there")
set(onnx_proto_out ${PROJECT_BINARY_DIR}/generated)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${RTX_ONNX_PROTO_DIR}/onnx/onnx.proto)
file(READ ${RTX_ONNX_PROTO_DIR}/onnx/onnx.proto onnx_schema)
string(REGEX REPLACE "\npackage onnx;" "\npackage rtx.onnx_schema;" onnx_schema "${onnx_schema}")
# With descriptors: they drive the scan that comes before the parser (frontend/wire_scan.cpp).
string(REPLACE "option optimize_for = LITE_RUNTIME;" "" onnx_schema "${onnx_schema}")
file(CONFIGURE OUTPUT ${onnx_proto_out}/rtx_onnx.proto CONTENT "${onnx_schema}" @ONLY)
add_custom_command(
  OUTPUT ${onnx_proto_out}/rtx_onnx.pb.cc ${onnx_proto_out}/rtx_onnx.pb.h
  COMMAND protobuf::protoc --cpp_out=${onnx_proto_out} -I${onnx_proto_out} ${onnx_proto_out}/rtx_onnx.proto
  DEPENDS ${onnx_proto_out}/rtx_onnx.proto
  COMMENT "Generating the ONNX schema classes"
  VERBATIM)
add_library(rtx_onnx_proto STATIC ${onnx_proto_out}/rtx_onnx.pb.cc)
target_include_directories(rtx_onnx_proto SYSTEM PUBLIC ${onnx_proto_out})
target_link_libraries(rtx_onnx_proto PUBLIC protobuf::libprotobuf)
set_target_properties(rtx_onnx_proto PROPERTIES CXX_CLANG_TIDY "")

# yaml-cpp: Debian's CMake target is the shared library, the static one has none.
find_package(yaml-cpp REQUIRED)
find_library(RTX_YAML_CPP_STATIC NAMES libyaml-cpp.a REQUIRED)
add_library(rtx_yaml_cpp INTERFACE)
target_include_directories(rtx_yaml_cpp SYSTEM INTERFACE ${YAML_CPP_INCLUDE_DIR})
target_link_libraries(rtx_yaml_cpp INTERFACE ${RTX_YAML_CPP_STATIC})

# fmt: Debian ships no static library, so its one source file is compiled here from the installed headers.
find_package(fmt REQUIRED)
add_library(rtx_fmt STATIC cmake/fmt_library.cpp)
get_target_property(fmt_include_dirs fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(rtx_fmt SYSTEM PUBLIC ${fmt_include_dirs})
