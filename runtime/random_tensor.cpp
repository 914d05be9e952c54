#include "runtime/random_tensor.h"

#include <algorithm>

namespace rtx::runtime {

namespace {

// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
class Generator {
 public:
  Generator(uint64_t seed, uint64_t stream) : state_(seed) { state_ = next() ^ (stream * 0x9e3779b97f4a7c15u); }
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Smallest and largest value of an integer type.
std::pair<int64_t, int64_t> limits(DType dtype) {
  const int bits = bit_width(dtype);
  if (dtype == DType::boolean) return {0, 1};
  if (bits == 64) return {INT64_MIN, INT64_MAX};
  if (is_signed(dtype)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

}  // namespace

Result<HostTensor> random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, uint64_t stream,
                                 const RandomRange& range) {
  HostTensor tensor{.dtype = dtype, .shape = std::move(shape), .bytes = {}};
  RTX_ASSIGN(const int64_t bytes, tensor_bytes(dtype, tensor.shape));
  tensor.bytes.resize(static_cast<size_t>(bytes));
  int64_t count = 1;
  for (int64_t size : tensor.shape) count *= size;
  Generator generator(seed, stream);

  if (is_float(dtype)) {
    if (!(range.float_low < range.float_high))
      return make_error(ErrorKind::usage, "E006", "the range of random values is empty");
    for (int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(generator.next() >> 40) * 0x1p-24;
      store_f64(dtype, tensor.bytes.data(), i, range.float_low + unit * (range.float_high - range.float_low));
    }
    return tensor;
  }
  auto [low, high] = limits(dtype);
  if (dtype != DType::boolean) {
    if (range.int_low >= range.int_high)
      return make_error(ErrorKind::usage, "E006", "the range of random integers is empty");
    low = std::max(low, range.int_low);
    high = std::min(high, range.int_high - 1);
    if (low > high)
      return make_error(ErrorKind::usage, "E006",
                        concat("the range of random integers does not meet that of ", to_string(dtype)));
  }
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: all of 64 bits
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t draw = generator.next();
    // Multiply-shift keeps the high bits, which are the better ones; the bias is below span / 2^64.
    const uint64_t offset = span ? static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * span) >> 64) : draw;
    store_i64(dtype, tensor.bytes.data(), i, static_cast<int64_t>(static_cast<uint64_t>(low) + offset));
  }
  return tensor;
}

}  // namespace rtx::runtime
