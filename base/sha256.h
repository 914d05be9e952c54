// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace rtx {

// Hashes bytes given in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest of all bytes so far; nothing may follow.
  std::array<std::byte, 32> finish();
  // finish() as 64 lower-case hex digits.
  std::string finish_hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 64 lower-case hex digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
// Reads the file in pieces of 4 MiB.
Result<std::string> sha256_hex(const File& file);

}  // namespace rtx
