// Whether two modules compute the same, by evaluating both on random inputs. Used by the golden and property tests, so
// that a wrong rewrite cannot be blessed, and by the reducer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ir/module.h"

namespace rtx {

// A small deterministic generator (SplitMix64), the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high);
  bool chance(int one_in) { return between(1, one_in) == 1; }

 private:
  uint64_t state_;
};

// Small numbers with few bits, so that sums are often exact and values often equal; with `specials` also zeros of both
// signs, infinities and NaN.
Tensor random_tensor(DType dtype, std::vector<int64_t> shape, Random& random, bool specials);

// Gives every `weight` without data random data that depends on its name only, floats times `scale`.
void fill_weights(Module& module, double scale = 1);

// What differs first between two tensors, as find_difference compares outputs.
std::optional<std::string> describe_difference(const Tensor& before, const Tensor& after, double tolerance = 0);

struct Difference {
  enum class Kind : uint8_t {
    interface,      // functions or the names of their outputs
    not_evaluated,  // no binding was found with which `before` can be evaluated
    after_fails,    // `after` cannot be evaluated with what `before` can
    output,
  };
  Kind kind = Kind::output;
  std::string text;
};

// Evaluates every function of both modules on the same random inputs, under several bindings of the symbols, and
// compares the outputs bit by bit; any NaN equals any NaN. With a tolerance inputs are finite, and floats need only be
// that close: norm of the difference over the norm of what it was. Tries `rounds` bindings. `adjust` changes random
// inputs, if given. Returns what differs first.
using AdjustInput = std::function<void(std::string_view name, Tensor& input)>;
std::optional<Difference> difference_of(const Module& before, const Module& after, uint64_t seed, double tolerance = 0,
                                        int rounds = 16, const AdjustInput& adjust = {});
// The text of the same.
std::optional<std::string> find_difference(const Module& before, const Module& after, uint64_t seed,
                                           double tolerance = 0, int rounds = 16, const AdjustInput& adjust = {});

}  // namespace rtx
