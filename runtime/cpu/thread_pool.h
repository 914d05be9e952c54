// ThreadPool: runs the tasks of one loop after another on a fixed set of threads.
//
// The caller works too, so a pool of n threads has n - 1 workers, and one of 1 has none. Workers that have nothing to
// do sleep; only for some microseconds after a loop do they spin, since a model's kernels follow each other closely.
// What a task computes must not depend on which thread runs it: results are then the same for any number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace rtx::runtime::cpu {

class ThreadPool {
 public:
  // `threads` includes the caller; 0: one for each processor that this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task) once for each task in [0, count), in any order, and returns when all calls have returned. The body
  // must not throw and must not use the pool. One caller at a time.
  template <typename Body>
  void run(int64_t count, const Body& body) {
    run_tasks(
        count, [](const void* context, int64_t task) { (*static_cast<const Body*>(context))(task); }, &body);
  }

  // The same with body(task, slot): calls with equal slots, below thread_count(), do not overlap. For scratch memory.
  template <typename Body>
  void run_slotted(int64_t count, const Body& body) {
    std::atomic<int64_t> next = 0;
    const int64_t slots = count < thread_count() ? count : thread_count();
    run(slots, [&](int64_t slot) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(task, slot);
    });
  }

  // Calls body(begin, end) on consecutive ranges that cover [0, size), each a multiple of `grain` long but for the
  // last. For loops over cheap items: `grain` is how many are worth a task.
  template <typename Body>
  void run_ranges(int64_t size, int64_t grain, const Body& body) {
    run((size + grain - 1) / grain, [&](int64_t task) {
      const int64_t begin = task * grain;
      body(begin, size - begin < grain ? size : begin + grain);
    });
  }

 private:
  using Task = void (*)(const void* context, int64_t task);
  void run_tasks(int64_t count, Task task, const void* context);
  void work();
  void take_tasks();

  // The loop in flight. Written only while closed and with no worker inside.
  Task task_ = nullptr;
  const void* context_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_ = 0;

  static constexpr uint32_t closed = 1u << 31;
  // The number of workers inside the loop, and whether more may enter.
  std::atomic<uint32_t> entrants_ = closed;
  std::atomic<uint32_t> generation_ = 0;  // counts loops; what workers sleep on
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace rtx::runtime::cpu
