#include "runtime/cublaslt.h"

#include <cstdlib>
#include <vector>

#include "base/text.h"

namespace rtx::runtime {

namespace {

constexpr const char* library_name = "libcublasLt.so.13";

std::vector<std::string> candidates(const std::string& path) {
  if (!path.empty()) return {path};
  if (const char* chosen = std::getenv("RTX_CUBLASLT"); chosen && *chosen) return {chosen};
  std::vector<std::string> names = {library_name};
  if (const char* home = std::getenv("CUDA_HOME"); home && *home)
    names.push_back(concat(home, "/lib64/", library_name));
  names.push_back(concat("/usr/local/cuda/lib64/", library_name));
  return names;
}

}  // namespace

Result<void> check(const Cublaslt& cublaslt, cublas::Status status, std::string_view call) {
  if (status == cublas::success) return Ok{};
  const char* name = cublaslt.get_status_name ? cublaslt.get_status_name(status) : nullptr;
  std::string got = concat(name ? name : "status", " (", status, ")");
  if (status == cublas::alloc_failed)
    return make_error(ErrorKind::out_of_memory, "E801", concat("out of memory in ", call)).with_got(got);
  return make_error(ErrorKind::device, "E707", concat("the cuBLASLt call ", call, " failed")).with_got(got);
}

Result<std::shared_ptr<const Cublaslt>> load_cublaslt(const std::string& path) {
  auto cublaslt = std::make_shared<Cublaslt>();
  std::string reasons;
  cublaslt->library = DynamicLibrary::open(candidates(path), reasons);
  if (!cublaslt->library)
    return make_error(ErrorKind::device, "E706", "the package calls cuBLASLt, which was not found")
        .with_expected(concat(library_name, " (CUDA Toolkit 13, or the wheel nvidia-cublas)"))
        .with_got(reasons)
        .with_help("name the library with --cublaslt or the environment variable RTX_CUBLASLT");
  const char* missing = nullptr;
#define RTX_RESOLVE(name, exported, parameters)                                                    \
  cublaslt->name = reinterpret_cast<decltype(cublaslt->name)>(cublaslt->library.symbol(exported)); \
  if (!cublaslt->name && !missing) missing = exported;
  RTX_CUBLASLT_FUNCTIONS(RTX_RESOLVE)
  RTX_RESOLVE(get_version, "cublasLtGetVersion", ())
  RTX_RESOLVE(get_status_name, "cublasLtGetStatusName", (cublas::Status))
#undef RTX_RESOLVE
  if (missing)
    return make_error(ErrorKind::device, "E706", "this cuBLASLt library lacks a function")
        .with_got(concat(cublaslt->library.name(), " without ", missing));
  return std::shared_ptr<const Cublaslt>(std::move(cublaslt));
}

}  // namespace rtx::runtime
