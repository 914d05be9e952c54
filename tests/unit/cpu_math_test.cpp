// The CPU device's elementary functions against long double, over the whole range of f32 and over samples of f64.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/cpu/elementwise_loops.h"

namespace rtx::runtime::cpu {
namespace {

using Exact = long double (*)(long double);

struct Case {
  Op op;
  Exact exact;
  double f64_ulps;  // of error allowed; 0: the definition itself loses more, so f64 is not held to it
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double gelu(long double x) { return x * 0.5L * std::erfc(-x * std::sqrt(0.5L)); }
long double silu(long double x) { return x / (1 + std::exp(-x)); }
long double rsqrt(long double x) { return 1 / std::sqrt(x); }

const Case cases[] = {
    {Op::exp, [](long double x) { return std::exp(x); }, 2},
    {Op::log, [](long double x) { return std::log(x); }, 2},
    {Op::tanh, [](long double x) { return std::tanh(x); }, 4},
    {Op::erf, [](long double x) { return std::erf(x); }, 2},
    {Op::sin, [](long double x) { return std::sin(x); }, 2},
    {Op::cos, [](long double x) { return std::cos(x); }, 2},
    {Op::sigmoid, sigmoid, 0},
    {Op::gelu, gelu, 0},
    {Op::silu, silu, 0},
    {Op::rsqrt, rsqrt, 2},
};

template <typename T>
std::vector<T> run(Isa isa, Op op, Lane lane, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  const void* in = x.data();
  elementwise_loops(isa).find(op, 0, lane)(static_cast<int64_t>(x.size()), &in, y.data());
  return y;
}

// The error in units of the last place of the exact value rounded; infinity where one is a NaN or an infinity alone.
template <typename T>
double ulps(T got, long double exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : INFINITY;
  const T magnitude = std::fabs(rounded);
  const T unit = std::max(std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude,
                          std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

TEST_CASE("functions of f32 are within 0.51 units in the last place over the whole range") {
  std::vector<float> x;
  // An odd stride over all bit patterns: every exponent, both signs, NaNs, subnormals.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 7919)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float edge :
       {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.72283f, 88.72284f, -103.97f, -103.98f, 0x1p-149f, 1.0f, -1.0f})
    x.push_back(edge);
  for (const Case& c : cases) {
    INFO(to_string(c.op));
    const std::vector<float> y = run(Isa::baseline, c.op, Lane::f32, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], c.exact(x[i])));
    CHECK(worst <= 0.51);
    for (Isa isa : supported_isas())
      CHECK(std::memcmp(run(isa, c.op, Lane::f32, x).data(), y.data(), y.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("functions of f64 are within a few units in the last place") {
  std::vector<double> x;
  std::mt19937_64 generator(3);
  for (int i = 0; i < 20000; ++i) x.push_back(std::bit_cast<double>(generator()));
  for (int i = 0; i < 40000; ++i)
    x.push_back((i - 20000) * 0.002 * (1 + 1e-9 * static_cast<double>(generator() % 1000)));
  for (int i = 0; i < 20000; ++i)
    x.push_back(
        std::ldexp(static_cast<double>(static_cast<int64_t>(generator())), -63 - static_cast<int>(generator() % 60)));
  // Close to multiples of pi / 2: the worst case for a double, and one for a float.
  x.insert(x.end(),
           {0x1.6ac5b262ca1ffp+849, 16367173.0 * 0x1p+72, 0x1p1023, 1e22, 3.141592653589793, 6.283185307179586, 11.0});
  for (const Case& c : cases) {
    INFO(to_string(c.op));
    const std::vector<double> y = run(Isa::baseline, c.op, Lane::f64, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], c.exact(x[i])));
    if (c.f64_ulps > 0) CHECK(worst <= c.f64_ulps);
    for (Isa isa : supported_isas())
      CHECK(std::memcmp(run(isa, c.op, Lane::f64, x).data(), y.data(), y.size() * sizeof(double)) == 0);
  }
}

TEST_CASE("pow is accurate and knows the special cases of C") {
  std::vector<float> base, exponent;
  std::vector<double> wide_base, wide_exponent;
  std::mt19937_64 generator(4);
  const double specials[] = {0.0,  -0.0,     1.0,       -1.0, 2.0,  -2.0,  3.0,   0.5,
                             -0.5, INFINITY, -INFINITY, NAN,  1e30, -1e30, 1e-30, 5.0};
  for (double a : specials) {
    for (double b : specials) {
      base.push_back(static_cast<float>(a));
      exponent.push_back(static_cast<float>(b));
    }
  }
  for (int i = 0; i < 200000; ++i) {
    base.push_back(std::ldexp(static_cast<float>(generator() >> 40), -24 + static_cast<int>(generator() % 40) - 20));
    exponent.push_back(static_cast<float>(static_cast<int64_t>(generator() % 4000) - 2000) / 64);
  }
  wide_base.assign(base.begin(), base.end());
  wide_exponent.assign(exponent.begin(), exponent.end());
  const int64_t n = static_cast<int64_t>(base.size());
  std::vector<float> y(base.size());
  std::vector<double> z(base.size());
  for (Isa isa : supported_isas()) {
    const void* in[] = {base.data(), exponent.data()};
    const void* wide_in[] = {wide_base.data(), wide_exponent.data()};
    std::vector<float> y_isa(base.size());
    std::vector<double> z_isa(base.size());
    elementwise_loops(isa).find(Op::pow, 0, Lane::f32)(n, in, y_isa.data());
    elementwise_loops(isa).find(Op::pow, 0, Lane::f64)(n, wide_in, z_isa.data());
    if (isa == Isa::baseline) {
      y = y_isa;
      z = z_isa;
    }
    CHECK(std::memcmp(y.data(), y_isa.data(), y.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(z.data(), z_isa.data(), z.size() * sizeof(double)) == 0);
  }
  double worst = 0, wide_worst = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const long double exact = std::pow(static_cast<long double>(base[i]), static_cast<long double>(exponent[i]));
    INFO(base[i], " to the ", exponent[i], " is ", y[i], " and ", z[i]);
    if (ulps(y[i], exact) > 1) CHECK(ulps(y[i], exact) <= 1);
    worst = std::max(worst, ulps(y[i], exact));
    wide_worst = std::max(wide_worst, ulps(z[i], exact));
  }
  CHECK(worst <= 0.51);
  CHECK(wide_worst <= 2);
}

}  // namespace
}  // namespace rtx::runtime::cpu
