// A device in host memory for tests: records what it is asked, runs functions in place of kernels, and can fail any
// call.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "runtime/device.h"

namespace rtx::runtime {

class FakeDevice : public Device {
 public:
  using KernelFunction = std::function<void(std::span<const DevicePointer>, std::span<const int64_t> symbols)>;

  // Behaviour of kernels by name; a kernel without one does nothing.
  std::map<std::string, KernelFunction> kernels;
  // "prepare add", "enqueue add", "copy to device 12" ... in order.
  std::vector<std::string> log;
  // Live objects of every sort; 0 at the end of a test means that nothing leaked.
  int live = 0;
  // The call with this number (from 0) fails; -1: none.
  int fail_at = -1;
  int calls = 0;

  const DeviceInfo& info() const override { return info_; }

  Result<std::unique_ptr<Module>> load(const package::Package& package) override {
    RTX_TRY(call("load"));
    return std::unique_ptr<Module>(std::make_unique<FakeModule>(*this, package));
  }
  Result<std::unique_ptr<TensorStorage>> allocate(int64_t bytes) override {
    RTX_TRY(call(concat("allocate ", bytes)));
    return std::unique_ptr<TensorStorage>(std::make_unique<FakeStorage>(*this, bytes));
  }
  Result<std::unique_ptr<Stream>> create_stream() override {
    RTX_TRY(call("create stream"));
    return std::unique_ptr<Stream>(std::make_unique<FakeStream>(*this));
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return make_error(ErrorKind::internal, "E799", "no events");
  }
  Result<void> copy_to_device(Stream&, DevicePointer to, std::span<const std::byte> from) override {
    RTX_TRY(call(concat("copy to device ", from.size())));
    if (!from.empty()) std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return Ok{};
  }
  Result<void> copy_to_host(Stream&, std::span<std::byte> to, DevicePointer from) override {
    RTX_TRY(call(concat("copy to host ", to.size())));
    if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size());
    return Ok{};
  }
  Result<void> fill(Stream&, DevicePointer to, int64_t bytes, std::byte value) override {
    RTX_TRY(call(concat("fill ", bytes)));
    if (bytes > 0) std::memset(reinterpret_cast<void*>(to), static_cast<int>(value), static_cast<size_t>(bytes));
    return Ok{};
  }

  int count(const std::string& entry) const {
    int found = 0;
    for (const std::string& line : log) found += line == entry;
    return found;
  }

 private:
  struct Counted {
    explicit Counted(FakeDevice& owner) : device(owner) { ++device.live; }
    Counted(const Counted&) = delete;
    ~Counted() { --device.live; }
    FakeDevice& device;
  };

  struct FakeStorage : TensorStorage, Counted {
    FakeStorage(FakeDevice& owner, int64_t bytes) : Counted(owner), size(bytes) {
      // From a 256-byte boundary, and filled so that a read of what nobody wrote shows.
      memory = ::operator new (static_cast<size_t>(bytes) + 1, std::align_val_t{256});
      std::memset(memory, 0xee, static_cast<size_t>(bytes));
    }
    ~FakeStorage() override { ::operator delete (memory, std::align_val_t{256}); }
    DevicePointer address() const override { return reinterpret_cast<DevicePointer>(memory); }
    int64_t bytes() const override { return size; }
    void* memory;
    int64_t size;
  };

  struct FakeStream : Stream, Counted {
    using Counted::Counted;
    Result<void> synchronize() override { return device.call("synchronize"); }
  };

  struct FakeKernel : PreparedKernel, Counted {
    FakeKernel(FakeDevice& owner, const package::Kernel& kernel, std::span<const int64_t> values)
        : Counted(owner), name(kernel.name), has_code(kernel.launch), symbols(values.begin(), values.end()) {}
    bool takes_scratch() const override { return has_code; }
    Result<void> enqueue(Stream&, std::span<const DevicePointer> buffers) override {
      RTX_TRY(device.call(concat("enqueue ", name)));
      if (const auto found = device.kernels.find(name); found != device.kernels.end()) found->second(buffers, symbols);
      return Ok{};
    }
    std::string name;
    bool has_code;
    std::vector<int64_t> symbols;
  };

  struct FakeModule : Module, Counted {
    FakeModule(FakeDevice& owner, const package::Package& loaded) : Counted(owner), package(loaded) {}
    Result<std::unique_ptr<PreparedKernel>> prepare(uint32_t kernel, std::span<const int64_t> symbols) override {
      const package::Kernel& found = package.manifest.kernels[kernel];
      RTX_TRY(device.call(concat("prepare ", found.name)));
      return std::unique_ptr<PreparedKernel>(std::make_unique<FakeKernel>(device, found, symbols));
    }
    const package::Package& package;
  };

  Result<void> call(std::string what) {
    log.push_back(std::move(what));
    if (calls++ == fail_at) return make_error(ErrorKind::device, "E703", concat("injected failure of ", log.back()));
    return Ok{};
  }

  DeviceInfo info_{.id = "fake:0", .name = "fake device", .arch = "fake", .memory_bytes = 1 << 30, .driver = {}};
};

}  // namespace rtx::runtime
