// A shared library opened at run time, so that the program starts where the library does not exist.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace rtx::runtime {

class DynamicLibrary {
 public:
  // Tries the names in order. The error text of every attempt is in `reasons` when none opens.
  static DynamicLibrary open(std::span<const std::string> names, std::string& reasons);
  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();

  explicit operator bool() const { return handle_ != nullptr; }
  // The name that opened.
  const std::string& name() const { return name_; }
  // Null if the library has no such symbol.
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace rtx::runtime
