// NVRTC runs one compile at a time in a process, however many threads ask. So compiles run in worker processes: this
// program again, started with a hidden first argument, that takes requests on a socket.
#pragma once

#include <sys/types.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/nvrtc_library.h"

namespace rtx::codegen {

inline constexpr std::string_view nvrtc_worker_argument = "--nvrtc-worker";

// What a tool runs when argv[1] is nvrtc_worker_argument: serves the socket on standard input with the library at
// `library_path` (argv[2]) until it is closed, and returns the exit code.
int nvrtc_worker_main(const std::string& library_path);

struct NvrtcRequest {
  std::string text;
  std::vector<std::string> options;
};

// A worker process and our end of its socket.
class NvrtcWorker {
 public:
  // `program` is started with the arguments nvrtc_worker_argument and `library_path`, in an environment without the
  // variables that change what NVRTC does.
  static Result<NvrtcWorker> start(const std::string& program, const std::string& library_path);
  NvrtcWorker(NvrtcWorker&& other) noexcept;
  NvrtcWorker& operator=(NvrtcWorker&& other) noexcept;
  // Closes the socket, which ends an idle worker, and waits for the process; a busy one is killed.
  ~NvrtcWorker();

  int descriptor() const { return descriptor_; }
  // Both return false when the process is gone; then how_it_ended() says why.
  bool send(const NvrtcRequest& request);
  // Waits for the answer to the request.
  bool receive(NvrtcOutput& output);
  // "was killed by signal 9 (Killed)"; ends the process if it still runs.
  std::string how_it_ended();

 private:
  NvrtcWorker(pid_t process, int descriptor) : process_(process), descriptor_(descriptor) {}
  void close_socket();
  pid_t process_ = -1;
  int descriptor_ = -1;
  bool busy_ = false;
};

}  // namespace rtx::codegen
