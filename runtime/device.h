// The interfaces between a loaded model and the machine that runs it. The CUDA device (runtime/cuda_device.h) and the
// CPU device (runtime/cpu/cpu_device.h) implement them; one contract test suite runs against every device.
//
// Objects of a device must be destroyed before it. A device and what it made belong to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/package/package.h"

namespace rtx::runtime {

// An address the device can use in a kernel: a CUdeviceptr or a host pointer.
using DevicePointer = uint64_t;

// A piece of device memory, freed on destruction.
class TensorStorage {
 public:
  virtual ~TensorStorage() = default;
  virtual DevicePointer address() const = 0;
  virtual int64_t bytes() const = 0;
};

// Work on a stream runs in order.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for everything enqueued; an error of that work is reported here at the latest.
  virtual Result<void> synchronize() = 0;
};

// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual Result<void> record(Stream& stream) = 0;
  // Nanoseconds from `start` to this event; waits for both.
  virtual Result<double> elapsed_ns_since(Event& start) = 0;
};

// One kernel with its launch worked out for one binding of the symbols.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  // Buffers in the order operands, results, and scratch (package::Step) if takes_scratch(). A launch with no work (an
  // empty result) does nothing.
  virtual Result<void> enqueue(Stream& stream, std::span<const DevicePointer> buffers) = 0;
  virtual bool takes_scratch() const { return false; }
  // How many bytes of each operand and result the kernel reads or writes, where the device knows that; else nothing.
  virtual std::span<const int64_t> buffer_bytes() const { return {}; }
};

// The kernels of one package, loaded. Keeps a reference to the package, which must outlive it.
class Module {
 public:
  virtual ~Module() = default;
  // `symbols` in manifest order. What is prepared must be destroyed before the module.
  virtual Result<std::unique_ptr<PreparedKernel>> prepare(uint32_t kernel, std::span<const int64_t> symbols) = 0;
};

struct DeviceInfo {
  std::string id;    // "cuda:0", "cpu"
  std::string name;  // "NVIDIA H200", "CPU device, 2 threads"
  std::string arch;  // "sm_90"; "cpu"
  int64_t memory_bytes = 0;
  std::string driver;  // driver and library versions, for reports; may be empty
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Checks that the package can run here (E701 names the archs of the package and of the device), then loads.
  virtual Result<std::unique_ptr<Module>> load(const package::Package& package) = 0;
  // At least 256-byte aligned; 0 bytes gives a valid object. E801 says how much was asked for and is free.
  virtual Result<std::unique_ptr<TensorStorage>> allocate(int64_t bytes) = 0;
  // Host memory that copies to and from the device are fast with (page-locked for CUDA); its address is a host pointer.
  virtual Result<std::unique_ptr<TensorStorage>> allocate_host(int64_t bytes);
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  // Ordered on the stream. The host memory must stay until synchronize().
  virtual Result<void> copy_to_device(Stream& stream, DevicePointer to, std::span<const std::byte> from) = 0;
  virtual Result<void> copy_to_host(Stream& stream, std::span<std::byte> to, DevicePointer from) = 0;
  // Every byte from `to` on becomes `value`; ordered on the stream.
  virtual Result<void> fill(Stream& stream, DevicePointer to, int64_t bytes, std::byte value) = 0;
};

}  // namespace rtx::runtime
