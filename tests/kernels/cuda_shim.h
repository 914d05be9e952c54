// CUDA C++ on a CPU, as much of it as generated kernels use: compiled in front of their text by emulator.cpp. Threads
// of a block that meet at barriers, shuffles or matrix products are fibers; one that waits lets the others run.
#include <ucontext.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
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

// Threads that wait for each other: a block, or a warp. Those that have ended are not waited for.
struct Group {
  unsigned alive, arrived, meetings;
};

struct Copy {
  void* to;
  const void* from;
  int bytes, group;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  Dim3 thread;
  unsigned number;
  bool done;
  unsigned exchanges;        // with its warp
  int copy_group;            // the number of groups closed
  std::vector<Copy> copies;  // begun and not waited for
};
static std::vector<Fiber> fibers;
static Fiber* current;
static ucontext_t scheduler;
static void (*kernel)(void**);
static void** arguments;
static Group block, warps[32];
// What each thread gives to its warp. Two places in turn: a thread is never two exchanges ahead of another.
static unsigned char exchanged[2][1024][32];

inline void yield() { swapcontext(&current->context, &scheduler); }
inline void fiber_main() {
  kernel(arguments);
  current->done = true;
  --block.alive;
  --warps[current->number / 32].alive;
}

inline void meet(Group& group) {
  const unsigned meeting = group.meetings;
  ++group.arrived;
  while (group.meetings == meeting) {
    if (group.arrived == group.alive) {
      group.arrived = 0;
      ++group.meetings;
    } else {
      yield();
    }
  }
}

// Gives `value` to the warp; of() then reads what a lane gave.
template <typename T>
class Exchange {
 public:
  explicit Exchange(const T& value) : place_(current->exchanges++ % 2), first_(current->number / 32 * 32) {
    static_assert(sizeof(T) <= sizeof exchanged[0][0]);
    std::memcpy(exchanged[place_][current->number], &value, sizeof value);
    meet(warps[current->number / 32]);
  }
  unsigned lane() const { return current->number % 32; }
  T of(unsigned lane) const {
    T value;
    std::memcpy(&value, exchanged[place_][first_ + lane], sizeof value);
    return value;
  }

 private:
  unsigned place_, first_;
};

inline void run_block_in_rounds() {
  fibers.resize(blockDim.x * blockDim.y);
  block = {(unsigned)fibers.size(), 0, 0};
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned before = i * 32, all = (unsigned)fibers.size();
    warps[i] = {all <= before ? 0 : all - before < 32 ? all - before : 32, 0, 0};
  }
  for (unsigned i = 0; i < fibers.size(); ++i) {
    Fiber& fiber = fibers[i];
    fiber.stack.resize(64 << 10);
    fiber.thread = {i % blockDim.x, i / blockDim.x, 0};
    fiber.number = i;
    fiber.done = false;
    fiber.exchanges = 0;
    fiber.copy_group = 0;
    fiber.copies.clear();
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

inline void __syncthreads() { shim::meet(shim::block); }
inline void __syncwarp() { shim::meet(shim::warps[shim::current->number / 32]); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  const shim::Exchange<T> warp(value);
  return warp.of(warp.lane() ^ (unsigned)lanes);
}

// Blocks run one after the other, so that what one writes the next one sees.
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  const unsigned before = *address;
  *address += value;
  return before;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}

inline unsigned __ballot_sync(unsigned, bool vote) {
  const shim::Exchange<bool> warp(vote);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= (unsigned)warp.of(lane) << lane;
  return votes;
}

// The prelude's tensor core functions; there stands which thread holds what.
template <typename Convert>
void rtx_mma(float* c, const unsigned* a, const unsigned* b, Convert convert) {
  struct Fragments {
    unsigned a[4], b[2];
  };
  const shim::Exchange<Fragments> warp({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const unsigned g = warp.lane() / 4, q = warp.lane() % 4;
  auto half = [&](unsigned pair, unsigned k) { return convert((unsigned short)(pair >> k % 2 * 16)); };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned upper = i / 2, column = 2 * q + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const float x = half(warp.of(4 * g + k % 8 / 2).a[upper + k / 8 * 2], k);
      c[i] += x * half(warp.of(4 * column + k % 8 / 2).b[k / 8], k);
    }
  }
}
inline void rtx_mma_f16(float* c, const unsigned* a, const unsigned* b) { rtx_mma(c, a, b, rtx_f16_to_f32); }
inline void rtx_mma_bf16(float* c, const unsigned* a, const unsigned* b) {
  rtx_mma(c, a, b, [](unsigned short half) { return __uint_as_float((unsigned)half << 16); });
}

inline void rtx_load_tiles_as(unsigned* r, const void* row, bool transposed) {
  const shim::Exchange<const unsigned short*> warp((const unsigned short*)row);
  const unsigned g = warp.lane() / 4, q = warp.lane() % 4;
  for (unsigned i = 0; i < 4; ++i) {
    auto element = [&](unsigned j) { return (unsigned)(transposed ? warp.of(8 * i + j)[g] : warp.of(8 * i + g)[j]); };
    r[i] = element(2 * q) | element(2 * q + 1) << 16;
  }
  __syncwarp();  // every thread has read before the rows may change
}
inline void rtx_load_tiles(unsigned* r, const void* row) { rtx_load_tiles_as(r, row, false); }
inline void rtx_load_tiles_transposed(unsigned* r, const void* row) { rtx_load_tiles_as(r, row, true); }

inline unsigned rtx_pack_f16(float low, float high) {
  return rtx_f32_to_f16(low) | (unsigned)rtx_f32_to_f16(high) << 16;
}
inline unsigned rtx_pack_bf16(float low, float high) {
  return rtx_f32_to_bf16(low) | (unsigned)rtx_f32_to_bf16(high) << 16;
}
inline float rtx_exp2(float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}

// Copies happen as late as they may, so that a kernel that does not wait reads what was there before.
inline void rtx_copy_async(void* to, const void* from, int bytes) {
  if ((unsigned long long)to % 16 || ((unsigned long long)from % 16 && bytes)) std::abort();
  shim::current->copies.push_back({to, from, bytes, shim::current->copy_group});
}
inline void rtx_copy_commit() { ++shim::current->copy_group; }
template <int groups>
void rtx_copy_wait() {
  std::vector<shim::Copy> later;
  for (const shim::Copy& copy : shim::current->copies) {
    if (copy.group >= shim::current->copy_group - groups) {
      later.push_back(copy);
      continue;
    }
    std::memcpy(copy.to, copy.from, (size_t)copy.bytes);
    std::memset((char*)copy.to + copy.bytes, 0, (size_t)(16 - copy.bytes));
  }
  shim::current->copies = later;
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
