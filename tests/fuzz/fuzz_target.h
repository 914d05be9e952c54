// What the fuzz targets share. Each target is one file that defines LLVMFuzzerTestOneInput(): rtx_add_fuzzer() links it
// with libFuzzer in the preset `fuzz`, and in every other build with fuzz_replay_test.cpp, which runs its corpus.
//
// A target aborts when a promise is broken: an error that is no clean message, or a value that does not survive being
// written and read again. Crashes, leaks, time and memory are the fuzzer's business.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/file.h"
#include "base/result.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace rtx::fuzz {

inline std::string_view as_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const std::string& promise, const std::string& details = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n%s\n", promise.c_str(), details.c_str());
  std::abort();
}

// An error about input is never a bug of rtx, has an id, and is text that a terminal may show.
inline void require_clean(const Error& error) {
  require(!error.diagnostics.empty(), "an error says something");
  for (const Diagnostic& diagnostic : error.diagnostics) {
    const std::string text = to_string(diagnostic);
    require(diagnostic.kind != ErrorKind::internal, "input cannot cause an internal error", text);
    require(!diagnostic.id.empty() && !diagnostic.message.empty(), "an error has an id and a message", text);
    require(text.size() <= 64 << 10, "a message is short", text);
    require(is_utf8(text), "a message is UTF-8", text);
    for (const char c : text)
      require(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f), "a message has no control bytes",
              text);
  }
}

// The bytes as a file that has no place on a disk.
inline std::shared_ptr<const File> as_file(const uint8_t* data, size_t size) {
  const int descriptor = ::memfd_create("input", MFD_CLOEXEC);
  require(descriptor >= 0, "memfd_create works");
  for (size_t done = 0; done < size;) {
    const ssize_t written = ::write(descriptor, data + done, size - done);
    require(written > 0, "a file in memory takes what is written");
    done += static_cast<size_t>(written);
  }
  Result<std::shared_ptr<const File>> file = File::adopt(descriptor, "input");
  require(file.ok(), "a file in memory opens");
  return std::move(file).value();
}

}  // namespace rtx::fuzz
