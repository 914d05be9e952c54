#include "base/sha256.h"

// The one-algorithm interface, deprecated in OpenSSL 3 in favour of EVP. EVP finds algorithms by name, which links all
// of libcrypto: 3.8 MB in every tool against 20 KB here, for the same code and speed (0.85 GB/s on the machine
// measured). It also reads the system's openssl.cnf, which may load other code.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <vector>

namespace rtx {

struct Sha256::Context {
  SHA256_CTX state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { SHA256_Init(&context_->state); }

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) { SHA256_Update(&context_->state, bytes.data(), bytes.size()); }

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::array<std::byte, 32> Sha256::finish() {
  std::array<std::byte, 32> digest{};
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_->state);
  return digest;
}

std::string Sha256::finish_hex() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : finish()) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 0xF];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

Result<std::string> sha256_hex(const File& file) {
  constexpr int64_t piece_bytes = int64_t{4} << 20;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(piece_bytes, file.size())));
  Sha256 hash;
  for (int64_t offset = 0; offset < file.size(); offset += piece_bytes) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(piece_bytes, file.size() - offset)));
    RTX_TRY(file.read(offset, part));
    hash.update(part);
  }
  return hash.finish_hex();
}

}  // namespace rtx
