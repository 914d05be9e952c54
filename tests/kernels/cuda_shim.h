// CUDA C++ on a CPU, as much of it as generated kernels use: compiled in front of their text by emulator.cpp. Threads
// of a block that meet at barriers or shuffles are fibers, switched in turn; each barrier is one round.
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
#define __shared__ static

struct Dim3 {
  unsigned x, y, z;
};
static Dim3 threadIdx, blockIdx, blockDim, gridDim;

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline double __longlong_as_double(long long bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// What the kernels do with inline PTX.
inline float rtx_f16_to_f32(unsigned short half) {
  const unsigned exponent = half >> 10 & 31, mantissa = half & 1023, sign = (unsigned)(half >> 15) << 31;
  float value = exponent == 0    ? std::ldexp((float)mantissa, -24)
                : exponent == 31 ? __uint_as_float(0x7f800000u | mantissa << 13)
                                 : std::ldexp((float)(mantissa | 1024), (int)exponent - 25);
  return __uint_as_float(__float_as_uint(value) | sign);
}
inline unsigned short rtx_f32_to_f16(float value) {
  const unsigned sign = __float_as_uint(value) >> 16 & 0x8000;
  const float magnitude = std::fabs(value);
  if (magnitude != magnitude) return (unsigned short)(sign | 0x7fff);
  if (magnitude >= 65520.0f) return (unsigned short)(sign | 0x7c00);
  if (magnitude < 0x1p-14f) return (unsigned short)(sign | (unsigned)std::nearbyint(std::ldexp(magnitude, 24)));
  const unsigned bits = __float_as_uint(magnitude);
  const unsigned rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
  return (unsigned short)(sign | (rounded - (112u << 10)));
}
inline unsigned short rtx_f32_to_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return (unsigned short)(bits >> 16 | 0x7fff);
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace shim {

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  Dim3 thread;
  bool done;
};
static std::vector<Fiber> fibers;
static Fiber* current;
static ucontext_t scheduler;
static void (*kernel)(void**);
static void** arguments;
static unsigned char exchange[1024][8];

inline void yield() { swapcontext(&current->context, &scheduler); }
inline void fiber_main() {
  kernel(arguments);
  current->done = true;
}

inline void run_block_in_rounds() {
  fibers.resize(blockDim.x * blockDim.y);
  for (unsigned i = 0; i < fibers.size(); ++i) {
    Fiber& fiber = fibers[i];
    fiber.stack.resize(64 << 10);
    fiber.thread = {i % blockDim.x, i / blockDim.x, 0};
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, fiber_main, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (Fiber& fiber : fibers) {
      if (fiber.done) continue;
      current = &fiber;
      threadIdx = fiber.thread;
      swapcontext(&scheduler, &fiber.context);
      any = true;
    }
  }
}

inline void run_block_in_sequence() {
  for (unsigned y = 0; y < blockDim.y; ++y) {
    for (unsigned x = 0; x < blockDim.x; ++x) {
      threadIdx = {x, y, 0};
      kernel(arguments);
    }
  }
}

}  // namespace shim

inline void __syncthreads() { shim::yield(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  const unsigned thread = threadIdx.x + threadIdx.y * blockDim.x;
  std::memcpy(shim::exchange[thread], &value, sizeof value);
  shim::yield();
  T other;
  std::memcpy(&other, shim::exchange[thread ^ (unsigned)lanes], sizeof other);
  shim::yield();
  return other;
}

extern "C" void emulated_launch(void (*kernel)(void**), void** arguments, const unsigned* grid, const int* block,
                                int meets) {
  shim::kernel = kernel;
  shim::arguments = arguments;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {(unsigned)block[0], (unsigned)block[1], (unsigned)block[2]};
  for (unsigned z = 0; z < grid[2]; ++z) {
    for (unsigned y = 0; y < grid[1]; ++y) {
      for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        meets ? shim::run_block_in_rounds() : shim::run_block_in_sequence();
      }
    }
  }
}
