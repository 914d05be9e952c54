#include "runtime/dynamic_library.h"

#include <dlfcn.h>

#include <utility>

namespace rtx::runtime {

DynamicLibrary DynamicLibrary::open(std::span<const std::string> names, std::string& reasons) {
  DynamicLibrary library;
  for (const std::string& name : names) {
    // NODELETE: the CUDA libraries start threads and register exit handlers; unmapping them is not safe.
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library.handle_) {
      library.name_ = name;
      return library;
    }
    const char* reason = dlerror();
    if (!reasons.empty()) reasons += "; ";
    reasons += reason ? reason : name;
  }
  return library;
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

}  // namespace rtx::runtime
