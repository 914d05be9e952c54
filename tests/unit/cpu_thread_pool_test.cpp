#include <doctest/doctest.h>

#include <atomic>
#include <vector>

#include "runtime/cpu/thread_pool.h"

namespace rtx::runtime::cpu {
namespace {

TEST_CASE("every task runs exactly once for any number of threads") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.thread_count() == threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.run(count, [&](int64_t task) { ++calls[static_cast<size_t>(task)]; });
      for (const auto& n : calls) CHECK(n == 1);
    }
  }
}

TEST_CASE("loops can follow each other closely") {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    std::atomic<int64_t> sum = 0;
    pool.run(5, [&](int64_t task) { sum += task; });
    total += sum;
  }
  CHECK(total == 200000);
}

TEST_CASE("tasks with equal slots do not overlap") {
  ThreadPool pool(4);
  std::vector<std::atomic<bool>> busy(4);
  std::atomic<int> overlaps = 0;
  pool.run_slotted(500, [&](int64_t, int64_t slot) {
    if (busy[static_cast<size_t>(slot)].exchange(true)) ++overlaps;
    for (std::atomic<int> i = 0; i < 1000; ++i) {
    }
    busy[static_cast<size_t>(slot)] = false;
  });
  CHECK(overlaps == 0);
}

TEST_CASE("ranges cover everything once") {
  ThreadPool pool(2);
  for (int64_t size : {0, 1, 99, 100, 101}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(size));
    pool.run_ranges(size, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++calls[static_cast<size_t>(i)];
    });
    for (const auto& n : calls) CHECK(n == 1);
  }
}

TEST_CASE("a pool without work is destroyed at once") {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

}  // namespace
}  // namespace rtx::runtime::cpu
