#include "runtime/cpu/thread_pool.h"

#include <sched.h>

namespace rtx::runtime::cpu {
namespace {

// About 20 microseconds: longer than the gap between two kernels, shorter than waking a thread is worth.
constexpr int idle_spins = 400;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned count = std::thread::hardware_concurrency();
  return count > 0 ? static_cast<int>(count) : 1;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = usable_processors();
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::take_tasks() {
  for (;;) {
    const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= count_) return;
    task_(context_, task);
  }
}

void ThreadPool::work() {
  uint32_t seen = 0;
  for (;;) {
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (++spins < idle_spins)
        pause();
      else
        generation_.wait(seen, std::memory_order_acquire);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    // A worker that wakes late finds the loop closed and must not touch it: its caller may have returned.
    if ((entrants_.fetch_add(1, std::memory_order_acquire) & closed) == 0) take_tasks();
    entrants_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run_tasks(int64_t count, Task task, const void* context) {
  if (workers_.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(context, i);
    return;
  }
  task_ = task;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  entrants_.fetch_and(~closed, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_tasks();
  // Workers that have not entered by now find nothing to do and are not waited for.
  entrants_.fetch_or(closed, std::memory_order_acq_rel);
  for (int spins = 0; entrants_.load(std::memory_order_acquire) != closed; ++spins) {
    if (spins < 4 * idle_spins)
      pause();
    else
      std::this_thread::yield();
  }
}

}  // namespace rtx::runtime::cpu
