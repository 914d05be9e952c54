// AlignedBuffer: host memory that starts on a 256-byte boundary, as device memory does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/result.h"
#include "base/text.h"

namespace rtx::runtime::cpu {

inline constexpr size_t buffer_alignment = 256;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  // Not initialised. 0 bytes gives a valid address; a failure is E801.
  static Result<AlignedBuffer> allocate(int64_t bytes) {
    AlignedBuffer buffer;
    void* data = nullptr;
    if (bytes >= 0 && bytes <= max_bytes) {
      data =
          ::operator new (static_cast<size_t>(bytes > 0 ? bytes : 1), std::align_val_t{buffer_alignment}, std::nothrow);
    }
    if (!data) {
      return make_error(ErrorKind::out_of_memory, "E801", concat("cannot allocate ", bytes, " bytes of host memory"))
          .with_help("use smaller dims, or a machine with more memory");
    }
    buffer.data_.reset(static_cast<std::byte*>(data));
    buffer.bytes_ = bytes;
    return buffer;
  }

  // Grows to at least `bytes`; the contents are lost when it does.
  Result<void> reserve(int64_t bytes) {
    if (bytes <= bytes_ && data_) return Ok{};
    data_.reset();
    bytes_ = 0;
    RTX_ASSIGN(*this, allocate(bytes));
    return Ok{};
  }

  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr int64_t max_bytes = int64_t{1} << 46;
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{buffer_alignment}); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

}  // namespace rtx::runtime::cpu
