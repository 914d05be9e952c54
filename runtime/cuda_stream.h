// Streams and events of a CUDA device.
#pragma once

#include <memory>

#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace rtx::runtime {

class CudaStream : public Stream {
 public:
  static Result<std::unique_ptr<CudaStream>> create(const CudaContext& context);
  ~CudaStream() override;
  Result<void> synchronize() override;
  cuda::Stream handle() const { return handle_; }

 private:
  CudaStream(const CudaContext& context, cuda::Stream handle) : context_(context), handle_(handle) {}
  const CudaContext& context_;
  cuda::Stream handle_;
};

class CudaEvent : public Event {
 public:
  static Result<std::unique_ptr<CudaEvent>> create(const CudaContext& context);
  ~CudaEvent() override;
  Result<void> record(Stream& stream) override;
  Result<double> elapsed_ns_since(Event& start) override;

 private:
  CudaEvent(const CudaContext& context, cuda::Event handle) : context_(context), handle_(handle) {}
  const CudaContext& context_;
  cuda::Event handle_;
};

// The driver's handle of a stream that the same device made.
inline cuda::Stream handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace rtx::runtime
