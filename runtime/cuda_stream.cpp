#include "runtime/cuda_stream.h"

namespace rtx::runtime {

Result<std::unique_ptr<CudaStream>> CudaStream::create(const CudaContext& context) {
  RTX_TRY(context.enter());
  cuda::Stream handle = nullptr;
  // Non-blocking: no hidden ordering against the legacy default stream of a host program.
  RTX_TRY(
      check(context.driver(), context.driver().stream_create(&handle, cuda::stream_non_blocking), "cuStreamCreate"));
  return std::unique_ptr<CudaStream>(new CudaStream(context, handle));
}

CudaStream::~CudaStream() {
  context_.enter_for_cleanup();
  context_.driver().stream_destroy(handle_);
}

Result<void> CudaStream::synchronize() {
  RTX_TRY(context_.enter());
  return check(context_.driver(), context_.driver().stream_synchronize(handle_), "cuStreamSynchronize");
}

Result<std::unique_ptr<CudaEvent>> CudaEvent::create(const CudaContext& context) {
  RTX_TRY(context.enter());
  cuda::Event handle = nullptr;
  RTX_TRY(check(context.driver(), context.driver().event_create(&handle, 0), "cuEventCreate"));
  return std::unique_ptr<CudaEvent>(new CudaEvent(context, handle));
}

CudaEvent::~CudaEvent() {
  context_.enter_for_cleanup();
  context_.driver().event_destroy(handle_);
}

Result<void> CudaEvent::record(Stream& stream) {
  RTX_TRY(context_.enter());
  return check(context_.driver(), context_.driver().event_record(handle_, handle_of(stream)), "cuEventRecord");
}

Result<double> CudaEvent::elapsed_ns_since(Event& start) {
  const CudaDriver& driver = context_.driver();
  RTX_TRY(context_.enter());
  const cuda::Event from = static_cast<CudaEvent&>(start).handle_;
  RTX_TRY(check(driver, driver.event_synchronize(from), "cuEventSynchronize"));
  RTX_TRY(check(driver, driver.event_synchronize(handle_), "cuEventSynchronize"));
  float milliseconds = 0;
  RTX_TRY(check(driver, driver.event_elapsed_time(&milliseconds, from, handle_), "cuEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace rtx::runtime
