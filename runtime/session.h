// Runs one program of a model, again and again.
//
// A session keeps its buffers and the launches it has worked out: a call with dims seen before allocates nothing and
// asks the driver only to copy and launch. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/bind_symbols.h"
#include "runtime/host_tensor.h"
#include "runtime/model.h"

namespace rtx::runtime {

struct SessionOptions {
  // Bindings of the dims whose launches are kept; the least recently used goes first.
  size_t max_bindings = 8;
  // Wait after every step, so that an error on the device names its step. Slow.
  bool synchronize_steps = false;
  // Fill the arena and the outputs with 0xff (NaN in every float type) before each run, so that a read of what no step
  // wrote shows.
  bool poison = false;
};

class Session {
 public:
  // The model must outlive the session. An empty name takes the first program.
  static Result<std::unique_ptr<Session>> create(Model& model, const std::string& program = {},
                                                 const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;

  const package::Program& program() const { return program_; }

  // Inputs and outputs in the program's order. After an error that is not the device's (E705) the session can go on.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs);

  // The same in parts, for measuring: bind, upload, execute (any number of times), download.
  //
  // bind() fixes the dims, see bind_symbols(); prepares the launches and makes the buffers large enough.
  Result<void> bind(std::span<const HostTensor> inputs, const SymbolValues& given = {});
  // Copies the inputs of bind() to the device; they must stay until the next download() or synchronize().
  Result<void> upload(std::span<const HostTensor> inputs);
  // Enqueues every step; returns before the device is done.
  Result<void> execute();
  // Waits for the device and returns the outputs.
  Result<std::vector<HostTensor>> download();
  Result<void> synchronize();

  Stream& stream() { return *stream_; }
  // Of the last bind(), in manifest order.
  const std::vector<int64_t>& symbols() const;
  // Device memory that the session holds now: inputs, outputs, arena and counters.
  int64_t device_bytes() const;

 private:
  struct Binding;

  Session(Model& model, const package::Program& program, const SessionOptions& options);
  Result<std::unique_ptr<Binding>> prepare(std::vector<int64_t> symbols) const;
  Result<void> check_buffers(const Binding& binding) const;
  Result<void> check_step(const package::Step& step, const PreparedKernel& kernel, std::span<const int64_t> symbols) const;
  Result<void> check_scratch(const package::Step& step, std::span<const int64_t> symbols) const;
  Result<void> check_size(uint32_t buffer, int64_t needed, std::span<const int64_t> symbols) const;
  Result<void> reserve(const Binding& binding);
  Result<void> grow(std::unique_ptr<TensorStorage>& storage, int64_t bytes);
  Result<void> reserve_counters(int64_t bytes);
  Result<void> fill_with_poison(const Binding& binding);
  void resolve_addresses(const Binding& binding);
  std::string step_place(size_t step) const;

  Model& model_;
  const package::Program& program_;
  SessionOptions options_;
  std::unique_ptr<Stream> stream_;
  bool in_flight_ = false;  // work was enqueued since the last wait

  std::vector<std::unique_ptr<Binding>> bindings_;  // most recently used first
  bool bound_ = false;                              // bindings_.front() has its memory and addresses

  std::vector<std::unique_ptr<TensorStorage>> inputs_, outputs_;
  std::unique_ptr<TensorStorage> arena_;
  // Zero between runs, whatever the binding: each kernel leaves its counters as it found them.
  std::unique_ptr<TensorStorage> counters_;
  // Addresses of all steps one after the other: operands, results, scratch that the kernel takes.
  std::vector<DevicePointer> addresses_;
  std::vector<size_t> first_address_;  // of each step, and the end
};

}  // namespace rtx::runtime
