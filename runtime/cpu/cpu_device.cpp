#include "runtime/cpu/cpu_device.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>

#include "base/text.h"
#include "ir/text.h"
#include "runtime/cpu/body_planner.h"

namespace rtx::runtime {
namespace {

using cpu::AlignedBuffer;

// What the kernels of a device run with.
struct Engine {
  explicit Engine(int threads) : pool(threads), isa(cpu::best_isa()) {}
  cpu::ThreadPool pool;
  cpu::Workspace workspace;
  cpu::Isa isa;
};

std::byte* host(DevicePointer address) { return reinterpret_cast<std::byte*>(address); }

class CpuStorage : public TensorStorage {
 public:
  explicit CpuStorage(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}
  DevicePointer address() const override { return reinterpret_cast<DevicePointer>(buffer_.data()); }
  int64_t bytes() const override { return buffer_.bytes(); }

 private:
  AlignedBuffer buffer_;
};

class CpuStream : public Stream {
 public:
  Result<void> synchronize() override { return Ok{}; }
};

class CpuEvent : public Event {
 public:
  Result<void> record(Stream&) override {
    time_ = std::chrono::steady_clock::now();
    return Ok{};
  }
  Result<double> elapsed_ns_since(Event& start) override {
    return std::chrono::duration<double, std::nano>(time_ - static_cast<CpuEvent&>(start).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

class CpuKernel : public PreparedKernel {
 public:
  CpuKernel(const std::string& name, cpu::BodyPlan plan, Engine& engine)
      : name_(name), plan_(std::move(plan)), engine_(engine) {}

  Result<void> enqueue(Stream&, std::span<const DevicePointer> buffers) override {
    if (buffers.size() != plan_.bytes.size()) {
      return make_error(ErrorKind::internal, "E605", concat("kernel '", name_, "' is given a wrong number of buffers"))
          .with_expected(concat(plan_.operands, " operands and ", plan_.results, " results"))
          .with_got(concat(buffers.size(), " buffers"));
    }
    addresses_.clear();
    for (DevicePointer buffer : buffers) addresses_.push_back(host(buffer));
    auto done = plan_.run(addresses_, engine_.pool, engine_.workspace);
    if (!done) return std::move(done).error().within(concat("kernel '", name_, "'"));
    return Ok{};
  }

  std::span<const int64_t> buffer_bytes() const override { return plan_.bytes; }

 private:
  const std::string& name_;
  cpu::BodyPlan plan_;
  Engine& engine_;
  std::vector<std::byte*> addresses_;
};

class CpuModule : public Module {
 public:
  CpuModule(const package::Package& package, Engine& engine) : manifest_(package.manifest), engine_(engine) {}

  Result<void> parse() {
    for (const package::Kernel& kernel : manifest_.kernels) {
      RTX_ASSIGN(auto body, parse_body(kernel.body, concat("kernel '", kernel.name, "'")));
      if (auto done = cpu::expand_without_loops(*body, engine_.isa); !done) {
        return std::move(done).error().within(concat("kernel '", kernel.name, "'"));
      }
      bodies_.push_back(std::move(body));
    }
    return Ok{};
  }

  Result<std::unique_ptr<PreparedKernel>> prepare(uint32_t kernel, std::span<const int64_t> symbols) override {
    SymbolValues values;
    for (size_t i = 0; i < manifest_.symbols.size() && i < symbols.size(); ++i) {
      values.emplace(manifest_.symbols[i].name, symbols[i]);
    }
    const std::string& name = manifest_.kernels[kernel].name;
    auto plan = cpu::BodyPlanner::plan(*bodies_[kernel], values, engine_.isa);
    if (!plan) return std::move(plan).error().within(concat("kernel '", name, "'"));
    return std::unique_ptr<PreparedKernel>(std::make_unique<CpuKernel>(name, *std::move(plan), engine_));
  }

 private:
  const package::Manifest& manifest_;
  Engine& engine_;
  std::vector<std::unique_ptr<Block>> bodies_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) : engine_(threads) {
    info_.id = "cpu";
    info_.name = concat("CPU device, ", engine_.pool.thread_count(),
                        engine_.pool.thread_count() == 1 ? " thread" : " threads", ", ", to_string(engine_.isa));
    info_.arch = "cpu";
    info_.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  }

  const DeviceInfo& info() const override { return info_; }

  Result<std::unique_ptr<Module>> load(const package::Package& package) override {
    auto module = std::make_unique<CpuModule>(package, engine_);
    RTX_TRY(module->parse());
    return std::unique_ptr<Module>(std::move(module));
  }

  Result<std::unique_ptr<TensorStorage>> allocate(int64_t bytes) override {
    RTX_ASSIGN(AlignedBuffer buffer, AlignedBuffer::allocate(bytes));
    return std::unique_ptr<TensorStorage>(std::make_unique<CpuStorage>(std::move(buffer)));
  }

  Result<std::unique_ptr<Stream>> create_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>());
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
  }

  Result<void> copy_to_device(Stream&, DevicePointer to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(host(to), from.data(), from.size());
    return Ok{};
  }
  Result<void> copy_to_host(Stream&, std::span<std::byte> to, DevicePointer from) override {
    if (!to.empty()) std::memcpy(to.data(), host(from), to.size());
    return Ok{};
  }
  Result<void> fill(Stream&, DevicePointer to, int64_t bytes, std::byte value) override {
    if (bytes > 0) std::memset(host(to), static_cast<int>(value), static_cast<size_t>(bytes));
    return Ok{};
  }

 private:
  Engine engine_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) { return std::make_unique<CpuDevice>(threads); }

}  // namespace rtx::runtime
