#include "codegen/nvrtc_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/file.h"
#include "base/folder.h"
#include "base/sha256.h"
#include "base/text.h"

namespace rtx::codegen {
namespace {

constexpr std::string_view library_name = "libnvrtc.so.13";
// The same for every kernel: it stands in the compiler's messages and must not stand for anything else.
constexpr const char* program_name = "kernel.cu";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

bool is_file(const std::string& path) { return access(path.c_str(), R_OK) == 0 && File::open(path).ok(); }

// The library itself, or a folder that holds it.
std::optional<std::string> library_at(const std::string& path) {
  if (is_file(path)) return path;
  for (const char* sub : {"/", "/lib64/", "/lib/"}) {
    if (std::string file = concat(path, sub, library_name); is_file(file)) return file;
  }
  return std::nullopt;
}

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  if (bytes <= 0) return ".";
  const std::string_view text(path, static_cast<size_t>(bytes));
  return std::string(text.substr(0, std::max<size_t>(text.rfind('/'), 1)));
}

std::vector<std::string> candidate_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (std::string value = environment(variable); !value.empty()) folders.push_back(std::move(value));
  }
  std::string folder = program_folder();
  folders.push_back(folder);
  folders.push_back(folder + "/../lib");
  for (int i = 0; i < 4 && folder.size() > 1; ++i) {
    folders.push_back(folder + "/.deps/cuda");
    folder.resize(std::max<size_t>(folder.rfind('/'), 1));
  }
  folders.push_back("/usr/local/cuda");
  return folders;
}

// The build id that the linker put into the file (ELF note NT_GNU_BUILD_ID).
std::optional<std::string> read_build_id(const File& file) {
  Elf64_Ehdr header;
  if (!file.read(0, std::as_writable_bytes(std::span(&header, 1)))) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > 64) return std::nullopt;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const auto place = static_cast<int64_t>(header.e_phoff + i * sizeof segment);
    if (!file.read(place, std::as_writable_bytes(std::span(&segment, 1)))) return std::nullopt;
    if (segment.p_type != PT_NOTE || segment.p_filesz > 4096) continue;
    std::vector<std::byte> notes(segment.p_filesz);
    if (!file.read(static_cast<int64_t>(segment.p_offset), notes)) return std::nullopt;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof note);
      const size_t name = at + sizeof note, data = name + (size_t{note.n_namesz} + 3) / 4 * 4;
      const size_t next = data + (size_t{note.n_descsz} + 3) / 4 * 4;
      if (next > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
        return sha256_hex(std::span(notes).subspan(data, note.n_descsz));
      }
      at = next;
    }
  }
  return std::nullopt;
}

Result<NvrtcLocation> locate(const std::string& path) {
  RTX_ASSIGN(const auto file, File::open(path));
  if (auto build_id = read_build_id(*file))
    return NvrtcLocation{path, concat("build-id ", *build_id, " ", file->size())};
  RTX_ASSIGN(const std::string sha256, sha256_hex(*file));
  return NvrtcLocation{path, concat("sha256 ", sha256)};
}

Diagnostic not_found(const std::vector<std::string>& places) {
  auto error = make_error(ErrorKind::device, "E721",
                          concat("NVRTC, the CUDA compiler library, was not found (", library_name, ")"));
  for (const std::string& place : places) error.with_note("looked in " + escape_text(place, 400));
  return error.with_help(
      "install CUDA 13 or `pip install nvidia-cuda-nvrtc`, and name the library by --nvrtc or the variable RTX_NVRTC; "
      "`--arch cpu` needs none");
}

}  // namespace

Result<NvrtcLocation> find_nvrtc(const std::string& requested) {
  const std::string given = requested.empty() ? environment("RTX_NVRTC") : requested;
  if (!given.empty()) {
    if (const auto path = library_at(given)) return locate(*path);
    return not_found({given});
  }
  std::vector<std::string> places = candidate_folders();
  for (const std::string& folder : places) {
    if (const auto path = library_at(folder)) return locate(*path);
  }
  // The loader knows more places (LD_LIBRARY_PATH, ld.so.cache), but tells only of what it has loaded.
  if (void* const handle = dlopen(std::string(library_name).c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    Dl_info info;
    void* const symbol = dlsym(handle, "nvrtcVersion");
    const std::string path =
        symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
    dlclose(handle);
    if (!path.empty()) return locate(path);
  }
  places.push_back("the loader's path");
  return not_found(places);
}

// nvrtc.h of CUDA 13, of which only this is needed; nvrtcResult is an int and 0 is success.
struct Nvrtc::Functions {
  void* library = nullptr;
  int (*create_program)(void** program, const char* text, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*destroy_program)(void** program) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* option_texts) = nullptr;
  int (*get_log_size)(void* program, size_t* bytes) = nullptr;
  int (*get_log)(void* program, char* log) = nullptr;
  int (*get_cubin_size)(void* program, size_t* bytes) = nullptr;
  int (*get_cubin)(void* program, char* cubin) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;

  ~Functions() {
    if (library != nullptr) dlclose(library);
  }
};

Result<std::unique_ptr<Nvrtc>> Nvrtc::load(const std::string& path) {
  auto cannot = [&](std::string_view what) {
    const char* const reason = dlerror();
    return make_error(ErrorKind::device, "E721", concat("NVRTC cannot be loaded: ", what))
        .with_where(escape_text(path))
        .with_note(reason == nullptr ? std::string("the loader gives no reason") : escape_text(reason, 400));
  };
  // NVRTC asks for its second library by name when it first compiles. Loaded from beside the first, it is found also
  // where the loader does not look.
  const size_t slash = path.rfind('/');
  const std::string folder_path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (const auto folder = Folder::open(folder_path)) {
    for (const std::string& name : folder->names().ok() ? *folder->names() : std::vector<std::string>()) {
      if (name.starts_with("libnvrtc-builtins.so.13."))
        dlopen(concat(folder_path, "/", name).c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
  auto functions = std::make_shared<Functions>();
  functions->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) return cannot("the file is no library for this machine, or is damaged");
  auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(functions->library, name));
    return function != nullptr;
  };
  const bool is_complete =
      get(functions->create_program, "nvrtcCreateProgram") && get(functions->destroy_program, "nvrtcDestroyProgram") &&
      get(functions->compile_program, "nvrtcCompileProgram") &&
      get(functions->get_log_size, "nvrtcGetProgramLogSize") && get(functions->get_log, "nvrtcGetProgramLog") &&
      get(functions->get_cubin_size, "nvrtcGetCUBINSize") && get(functions->get_cubin, "nvrtcGetCUBIN") &&
      get(functions->get_error_string, "nvrtcGetErrorString");
  if (!is_complete) return cannot("a function of it is missing");
  std::unique_ptr<Nvrtc> nvrtc(new Nvrtc);
  nvrtc->functions_ = std::move(functions);
  return nvrtc;
}

NvrtcOutput Nvrtc::compile(const std::string& text, const std::vector<std::string>& options) const {
  const Functions& f = *functions_;
  NvrtcOutput output;
  void* program = nullptr;
  if (const int result = f.create_program(&program, text.c_str(), program_name, 0, nullptr, nullptr); result != 0) {
    output.log = concat("nvrtcCreateProgram: ", f.get_error_string(result));
    return output;
  }
  std::vector<const char*> option_texts;
  for (const std::string& option : options) option_texts.push_back(option.c_str());
  const int result = f.compile_program(program, static_cast<int>(option_texts.size()), option_texts.data());
  // Sizes of texts count their final zero.
  size_t bytes = 0;
  if (f.get_log_size(program, &bytes) == 0 && bytes > 1) {
    output.log.resize(bytes);
    if (f.get_log(program, output.log.data()) != 0) output.log.clear();
    while (output.log.ends_with('\0')) output.log.pop_back();
  }
  if (result != 0) {
    output.log += concat("nvrtcCompileProgram: ", f.get_error_string(result), "\n");
  } else if (f.get_cubin_size(program, &bytes) == 0 && bytes > 0) {
    output.cubin.resize(bytes);
    if (f.get_cubin(program, reinterpret_cast<char*>(output.cubin.data())) == 0)
      output.status = NvrtcOutput::Status::ok;
  }
  if (result == 0 && output.status != NvrtcOutput::Status::ok) output.log += "nvrtcGetCUBIN: no machine code\n";
  f.destroy_program(&program);
  return output;
}

}  // namespace rtx::codegen
