// Times of repeated runs, and the table that sums them up.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace rtx::cli {

class Times {
 public:
  void add_ns(double ns) { ns_.push_back(ns); }
  bool empty() const { return ns_.empty(); }
  // The value that the share `p` of all times does not exceed (nearest rank).
  double percentile_ms(double p) {
    std::sort(ns_.begin(), ns_.end());
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(ns_.size())));
    return ns_[std::min(std::max<size_t>(rank, 1), ns_.size()) - 1] * 1e-6;
  }
  double mean_ms() const {
    double sum = 0;
    for (double ns : ns_) sum += ns;
    return sum / static_cast<double>(ns_.size()) * 1e-6;
  }

 private:
  std::vector<double> ns_;
};

inline std::string timing_header() {
  return fmt::format("{:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "time (ms)", "min", "mean", "median", "p90", "p99",
                     "max");
}

inline std::string timing_row(const std::string& name, Times& times) {
  return fmt::format("{:<28} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", name, times.percentile_ms(0),
                     times.mean_ms(), times.percentile_ms(0.5), times.percentile_ms(0.9), times.percentile_ms(0.99),
                     times.percentile_ms(1));
}

}  // namespace rtx::cli
