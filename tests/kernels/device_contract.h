// What every device promises in runtime/device.h; check_contract() runs it against one.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "runtime/device.h"

namespace rtx::runtime {

inline std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 131 + i / 251);
  return data;
}

inline void check_info(Device& device) {
  CHECK(!device.info().id.empty());
  CHECK(!device.info().name.empty());
  CHECK(!device.info().arch.empty());
  CHECK(device.info().memory_bytes > 0);
}

inline void check_storage(Device& device) {
  for (const int64_t bytes : {0, 1, 255, 256, 257, 1 << 20}) {
    CAPTURE(bytes);
    const auto storage = device.allocate(bytes);
    REQUIRE(storage.ok());
    CHECK((*storage)->bytes() == bytes);
    CHECK((*storage)->address() % 256 == 0);
    CHECK((bytes == 0 || (*storage)->address() != 0));
  }
  const auto first = device.allocate(1000).value(), second = device.allocate(1000).value();
  const uint64_t distance =
      std::max(first->address(), second->address()) - std::min(first->address(), second->address());
  CHECK(distance >= 1000);
}

inline void check_out_of_memory(Device& device) {
  const auto storage = device.allocate(int64_t{1} << 50);
  REQUIRE(!storage.ok());
  CHECK(storage.error().first().kind == ErrorKind::out_of_memory);
  // Nothing is broken by it.
  CHECK(device.allocate(1 << 20).ok());
}

inline void check_copies(Device& device) {
  const auto stream = device.create_stream().value();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{3} << 20}) {
    CAPTURE(bytes);
    const std::vector<std::byte> sent = pattern(bytes);
    const auto storage = device.allocate(static_cast<int64_t>(bytes)).value();
    std::vector<std::byte> received(bytes);
    REQUIRE(device.copy_to_device(*stream, storage->address(), sent).ok());
    REQUIRE(device.copy_to_host(*stream, received, storage->address()).ok());
    REQUIRE(stream->synchronize().ok());
    CHECK(received == sent);
  }
}

inline void check_copies_into_the_middle(Device& device) {
  const auto stream = device.create_stream().value();
  const auto storage = device.allocate(1024).value();
  const std::vector<std::byte> zeros(1024), piece = pattern(100);
  REQUIRE(device.copy_to_device(*stream, storage->address(), zeros).ok());
  REQUIRE(device.copy_to_device(*stream, storage->address() + 333, piece).ok());
  std::vector<std::byte> received(1024);
  REQUIRE(device.copy_to_host(*stream, received, storage->address()).ok());
  REQUIRE(stream->synchronize().ok());
  std::vector<std::byte> expected = zeros;
  std::copy(piece.begin(), piece.end(), expected.begin() + 333);
  CHECK(received == expected);
}

inline void check_fill(Device& device) {
  const auto stream = device.create_stream().value();
  const auto storage = device.allocate(5000).value();
  REQUIRE(device.fill(*stream, storage->address(), 5000, std::byte{0x77}).ok());
  REQUIRE(device.fill(*stream, storage->address() + 13, 4001, std::byte{0}).ok());
  REQUIRE(device.fill(*stream, storage->address(), 0, std::byte{1}).ok());
  std::vector<std::byte> received(5000), expected(5000, std::byte{0x77});
  REQUIRE(device.copy_to_host(*stream, received, storage->address()).ok());
  REQUIRE(stream->synchronize().ok());
  std::fill_n(expected.begin() + 13, 4001, std::byte{0});
  CHECK(received == expected);
}

inline void check_host_memory(Device& device) {
  const auto stream = device.create_stream().value();
  const auto host = device.allocate_host(5000).value();
  CHECK(host->bytes() == 5000);
  const std::span<std::byte> memory(reinterpret_cast<std::byte*>(host->address()), 5000);
  const std::vector<std::byte> sent = pattern(5000);
  std::copy(sent.begin(), sent.end(), memory.begin());
  const auto storage = device.allocate(5000).value();
  REQUIRE(device.copy_to_device(*stream, storage->address(), memory).ok());
  REQUIRE(stream->synchronize().ok());
  std::fill(memory.begin(), memory.end(), std::byte{0});
  REQUIRE(device.copy_to_host(*stream, memory, storage->address()).ok());
  REQUIRE(stream->synchronize().ok());
  CHECK(std::equal(memory.begin(), memory.end(), sent.begin()));
}

inline void check_events(Device& device) {
  const auto stream = device.create_stream().value();
  const auto start = device.create_event().value(), end = device.create_event().value();
  const std::vector<std::byte> data(1 << 20);
  const auto storage = device.allocate(1 << 20).value();
  REQUIRE(start->record(*stream).ok());
  REQUIRE(device.copy_to_device(*stream, storage->address(), data).ok());
  REQUIRE(end->record(*stream).ok());
  const auto elapsed = end->elapsed_ns_since(*start);
  REQUIRE(elapsed.ok());
  CHECK(*elapsed >= 0);
  CHECK(*elapsed < 10e9);
}

inline void check_contract(Device& device) {
  check_info(device);
  check_storage(device);
  check_out_of_memory(device);
  check_copies(device);
  check_copies_into_the_middle(device);
  check_fill(device);
  check_host_memory(device);
  check_events(device);
}

}  // namespace rtx::runtime
