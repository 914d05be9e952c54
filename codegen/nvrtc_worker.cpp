#include "codegen/nvrtc_worker.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/text.h"

extern char** environ;

namespace rtx::codegen {
namespace {

// A message is a count of parts and each part with its size in front; all numbers are 64-bit.
using Message = std::vector<std::string>;
constexpr uint64_t largest_message = uint64_t{1} << 30;

bool write_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    // No SIGPIPE when the other side is gone.
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool read_all(int socket, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = recv(socket, out, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

std::string_view number_bytes(const uint64_t& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

bool write_message(int socket, const Message& message) {
  std::string bytes;
  const uint64_t count = message.size();
  bytes += number_bytes(count);
  for (const std::string& part : message) {
    const uint64_t size = part.size();
    bytes += number_bytes(size);
    bytes += part;
  }
  return write_all(socket, bytes);
}

std::optional<Message> read_message(int socket) {
  uint64_t count = 0, total = 0;
  if (!read_all(socket, reinterpret_cast<char*>(&count), sizeof count) || count > 1000) return std::nullopt;
  Message message(count);
  for (std::string& part : message) {
    uint64_t size = 0;
    if (!read_all(socket, reinterpret_cast<char*>(&size), sizeof size)) return std::nullopt;
    total += size;
    if (size > largest_message || total > largest_message) return std::nullopt;
    part.resize(size);
    if (!read_all(socket, part.data(), size)) return std::nullopt;
  }
  return message;
}

std::string_view status_word(NvrtcOutput::Status status) {
  switch (status) {
    case NvrtcOutput::Status::ok:
      return "ok";
    case NvrtcOutput::Status::failed:
      return "failed";
    case NvrtcOutput::Status::unloadable:
      return "unloadable";
  }
  return "failed";
}

// Variables such as NVRTC_APPEND_FLAGS would change the code; a worker sees only what it needs to run at all.
std::vector<std::string> worker_environment() {
  constexpr std::array<std::string_view, 6> kept = {
      "LD_LIBRARY_PATH=", "PATH=", "TMPDIR=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    for (const std::string_view prefix : kept) {
      if (text.starts_with(prefix)) variables.emplace_back(text);
    }
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

int nvrtc_worker_main(const std::string& library_path) {
  constexpr int socket = STDIN_FILENO;
  // Loaded with the first request, so that an error has somebody to be told to.
  std::unique_ptr<Nvrtc> nvrtc;
  while (auto request = read_message(socket)) {
    NvrtcOutput output;
    if (!nvrtc) {
      auto loaded = Nvrtc::load(library_path);
      if (loaded) {
        nvrtc = std::move(loaded).value();
      } else {
        output.status = NvrtcOutput::Status::unloadable;
        output.log = to_string(loaded.error().first());
      }
    }
    if (nvrtc && !request->empty()) {
      const std::string text = std::move(request->front());
      request->erase(request->begin());
      output = nvrtc->compile(text, *request);
    }
    const std::string cubin(reinterpret_cast<const char*>(output.cubin.data()), output.cubin.size());
    if (!write_message(socket, {std::string(status_word(output.status)), output.log, cubin})) return 1;
  }
  // Without running what the library registered for exit: it only costs time.
  _exit(0);
}

Result<NvrtcWorker> NvrtcWorker::start(const std::string& program, const std::string& library_path) {
  auto cannot = [&](int code) {
    return make_error(ErrorKind::io, "E901",
                      concat("cannot start a compiler process: ", std::generic_category().message(code)))
        .with_where(escape_text(program));
  };
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return cannot(errno);
  std::vector<std::string> arguments = {program, std::string(nvrtc_worker_argument), library_path};
  std::vector<std::string> environment = worker_environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
  // Nothing that the library may print gets into the data of the tool.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t process = -1;
  const int code = posix_spawn(&process, program.c_str(), &actions, nullptr, pointers(arguments).data(),
                               pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  if (code != 0) {
    close(sockets[0]);
    return cannot(code);
  }
  return NvrtcWorker(process, sockets[0]);
}

NvrtcWorker::NvrtcWorker(NvrtcWorker&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      busy_(other.busy_) {}

NvrtcWorker& NvrtcWorker::operator=(NvrtcWorker&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(busy_, other.busy_);
  return *this;
}

NvrtcWorker::~NvrtcWorker() {
  close_socket();
  if (process_ < 0) return;
  if (busy_) kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void NvrtcWorker::close_socket() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

bool NvrtcWorker::send(const NvrtcRequest& request) {
  Message message = {request.text};
  message.insert(message.end(), request.options.begin(), request.options.end());
  busy_ = true;
  return write_message(descriptor_, message);
}

bool NvrtcWorker::receive(NvrtcOutput& output) {
  auto message = read_message(descriptor_);
  if (!message || message->size() != 3) return false;
  busy_ = false;
  for (const auto status : {NvrtcOutput::Status::ok, NvrtcOutput::Status::failed, NvrtcOutput::Status::unloadable}) {
    if (status_word(status) == (*message)[0]) output.status = status;
  }
  output.log = std::move((*message)[1]);
  const auto cubin = std::as_bytes(std::span((*message)[2]));
  output.cubin.assign(cubin.begin(), cubin.end());
  return true;
}

std::string NvrtcWorker::how_it_ended() {
  close_socket();
  if (process_ < 0) return "ended";
  int status = 0;
  // A process that broke the protocol may still run; one that died has closed its end just before.
  pid_t waited = 0;
  for (int i = 0; i < 20 && waited == 0; ++i) {
    waited = waitpid(process_, &status, WNOHANG);
    if (waited == 0) usleep(10'000);
  }
  if (waited == 0) {
    kill(process_, SIGKILL);
    while ((waited = waitpid(process_, &status, 0)) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
  if (waited > 0 && WIFSIGNALED(status))
    return concat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  if (waited > 0 && WIFEXITED(status)) return concat("ended with exit code ", WEXITSTATUS(status));
  return "ended";
}

}  // namespace rtx::codegen
