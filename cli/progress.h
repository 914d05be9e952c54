// A line on stderr that says how far a long step is: "writing weights: 1.2 of 4.0 GiB".
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/tool.h"

namespace rtx::cli {

class Progress {
 public:
  void add_option(CLI::App& app) {
    app.add_option("--progress", mode_, "Say on stderr how far a long step is: auto (on a terminal), always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->capture_default_str();
  }

  bool shown() const { return mode_ == "always" || (mode_ == "auto" && isatty(STDERR_FILENO)); }

  // Of bytes; steps of less than 64 MiB are not worth a line, unless it is always wanted.
  void bytes(std::string_view what, int64_t done, int64_t all) const {
    if (!shown() || (mode_ != "always" && all < int64_t{64} << 20)) return;
    if (done < all && !is_time()) return;
    const bool large = all >= int64_t{1} << 30;
    const double unit = large ? 1 << 30 : 1 << 20;
    line(fmt::format("{}: {:.1f} of {:.1f} {}", what, static_cast<double>(done) / unit, static_cast<double>(all) / unit,
                     large ? "GiB" : "MiB"),
         done == all);
  }

  // Of things.
  void count(std::string_view what, size_t done, size_t all) const {
    if (shown()) line(fmt::format("{}: {}/{}", what, done, all), done == all);
  }

 private:
  // Ten lines a second are enough.
  bool is_time() const {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return false;
    last_ = now;
    return true;
  }

  // One line that is written over on a terminal; a line each time elsewhere.
  void line(const std::string& text, bool last) const {
    if (isatty(STDERR_FILENO))
      fmt::print(stderr, "\r{}{}", text, last ? "\n" : "");
    else
      fmt::print(stderr, "{}\n", text);
    std::fflush(stderr);
  }

  std::string mode_ = "auto";
  mutable std::chrono::steady_clock::time_point last_;
};

}  // namespace rtx::cli
