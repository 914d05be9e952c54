#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace rtx {

struct Sha256::Context {
  EVP_MD_CTX* handle = nullptr;
  ~Context() { EVP_MD_CTX_free(handle); }
};

namespace {

// SHA-256 is always in libcrypto; a failure here means that memory ran out in the middle of a hash.
void require(bool succeeded) {
  if (succeeded) return;
  std::fputs("error: libcrypto cannot compute SHA-256\n", stderr);
  std::abort();
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // Without this, the first use of libcrypto reads the system's openssl.cnf, which may load other code.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  context_->handle = EVP_MD_CTX_new();
  require(context_->handle != nullptr && EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()) == 1);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::array<std::byte, 32> Sha256::finish() {
  std::array<std::byte, 32> digest{};
  require(EVP_DigestFinal_ex(context_->handle, reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1);
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
