// Architectures, occupancy, fatbin containers, the log of ptxas and the kernel cache: all that needs no NVRTC.
#include <doctest/doctest.h>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "codegen/arch.h"
#include "codegen/fatbin.h"
#include "codegen/kernel_cache.h"
#include "codegen/occupancy.h"
#include "codegen/ptxas_log.h"
#include "runtime/package/fatbin.h"
#include "tests/temp_folder.h"

#ifdef RTX_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace rtx::codegen {
namespace {

namespace fs = std::filesystem;

TEST_CASE("architectures are found by name, and an unknown one lists those there are") {
  CHECK(find_arch("sm_120")->shared_bytes_per_sm == 100 * 1024);
  CHECK(find_arch("sm_90a")->threads_per_sm == 2048);
  for (const char* name : {"sm_75", "sm_90b", "90a", "", "SM_90"}) {
    const auto arch = find_arch(name);
    REQUIRE(!arch.ok());
    CHECK(arch.error().first().id == "E411");
    CHECK(arch.error().first().expected.find("sm_120a, sm_120f") != std::string::npos);
  }
}

TEST_CASE("occupancy follows threads, registers and shared memory") {
  const Arch h100 = *find_arch("sm_90a"), rtx5090 = *find_arch("sm_120");
  CHECK(compute_occupancy(h100, 256, 32, 0).blocks_per_sm == 8);  // limited by threads
  CHECK(compute_occupancy(h100, 256, 32, 0).fraction == 1.0);
  CHECK(compute_occupancy(h100, 256, 64, 0).blocks_per_sm == 4);  // by registers
  CHECK(compute_occupancy(h100, 256, 64, 0).fraction == 0.5);
  CHECK(compute_occupancy(h100, 32, 16, 0).blocks_per_sm == 32);  // by the number of blocks
  CHECK(compute_occupancy(rtx5090, 256, 32, 0).blocks_per_sm == 6);
  CHECK(compute_occupancy(rtx5090, 128, 32, 48 * 1024).blocks_per_sm == 2);  // by shared memory
  CHECK(compute_occupancy(rtx5090, 128, 32, 99 * 1024).blocks_per_sm == 1);
  CHECK(compute_occupancy(rtx5090, 128, 32, 99 * 1024 + 1).blocks_per_sm == 0);
  CHECK(compute_occupancy(rtx5090, 1024, 128, 0).blocks_per_sm == 0);
  CHECK(compute_occupancy(rtx5090, 1025, 32, 0).blocks_per_sm == 0);
  CHECK(compute_occupancy(rtx5090, 0, 32, 0).blocks_per_sm == 0);
  package::Resources resources;
  resources.arch = "sm_120";
  resources.registers = 40;
  resources.shared_bytes = 1024;
  REQUIRE(add_occupancy(resources, 256, 23 * 1024).ok());
  CHECK(resources.blocks_per_sm == 4);
  CHECK(resources.occupancy == 32.0 / 48);
  resources.arch = "sm_1";
  CHECK(add_occupancy(resources, 256, 0).error().first().id == "E411");
}

TEST_CASE("occupancy is that of NVIDIA's own calculator") {
#ifdef RTX_CUDA_OCCUPANCY
  int64_t compared = 0, differing = 0;
  for (const Arch& arch : list_archs()) {
    const int number = std::stoi(std::string(arch.name.substr(3)));
    cudaOccDeviceProp device;
    device.computeMajor = number / 10;
    device.computeMinor = number % 10;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = arch.threads_per_sm;
    device.regsPerBlock = device.regsPerMultiprocessor = 64 * 1024;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = static_cast<size_t>(arch.shared_bytes_per_sm);
    device.numSms = 100;
    device.sharedMemPerBlockOptin = static_cast<size_t>(arch.shared_bytes_per_block);
    device.reservedSharedMemPerBlock = 1024;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    int blocks_per_sm = 0;
    REQUIRE(cudaOccMaxBlocksPerMultiprocessor(&blocks_per_sm, &device) == CUDA_OCC_SUCCESS);
    CHECK(blocks_per_sm == arch.blocks_per_sm);
    for (int threads : {1, 31, 32, 33, 64, 96, 128, 192, 256, 257, 384, 512, 768, 1000, 1024}) {
      for (int registers : {1, 8, 16, 24, 32, 33, 40, 48, 56, 64, 65, 80, 96, 128, 168, 200, 255}) {
        for (int shared : {0, 1, 1000, 1024, 4096, 10'000, 16'384, 30'000, 48 * 1024, 60'000, 99 * 1024, 120'000,
                           163 * 1024, 227 * 1024}) {
          cudaOccFuncAttributes function;
          function.maxThreadsPerBlock = 1024;
          function.numRegs = registers;
          function.sharedSizeBytes = 0;
          function.partitionedGCConfig = PARTITIONED_GC_OFF;
          function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          function.maxDynamicSharedSizeBytes = static_cast<size_t>(arch.shared_bytes_per_block);
          function.numBlockBarriers = 1;
          cudaOccResult result;
          const auto status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads,
                                                                      static_cast<size_t>(shared));
          const int expected = status == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : 0;
          ++compared;
          const int ours = compute_occupancy(arch, threads, registers, shared).blocks_per_sm;
          if (ours != expected && differing++ < 5) {
            MESSAGE(std::string(arch.name) << " threads " << threads << " registers " << registers << " shared "
                                           << shared << ": " << ours << ", expected " << expected);
          }
        }
      }
    }
  }
  CHECK(compared > 50'000);
  CHECK(differing == 0);
#else
  MESSAGE("skipped: no cuda_occupancy.h");
#endif
}

TEST_CASE("the log of ptxas gives registers, shared memory, stack and spills") {
  const auto resources = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_120'\n"
      "ptxas info    : Function properties for k\n"
      "    40 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 40 bytes cumulative stack size, 4096 bytes smem\n"
      "ptxas info    : Compile time = 8.236 ms\n",
      "sm_120");
  REQUIRE(resources.ok());
  CHECK(resources->arch == "sm_120");
  CHECK(resources->registers == 168);
  CHECK(resources->shared_bytes == 4096);
  CHECK(resources->stack_bytes == 40);
  CHECK(resources->spill_bytes == 52);
  CHECK(parse_ptxas_log("ptxas info : Used 8 registers", "sm_80")->registers == 8);
  CHECK(parse_ptxas_log("kernel.cu(3): warning\n", "sm_80").error().first().id == "E726");
}

// An ELF file as far as the container looks at it, with or without a section .nv.compat.
std::vector<std::byte> fake_cubin(std::string_view record, size_t extra_bytes = 0) {
  const std::string names("\0.nv.compat\0", 12);
  std::string file(sizeof(Elf64_Ehdr), '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_machine = 190;
  const auto add = [&](std::string_view bytes) {
    const size_t offset = file.size();
    file += bytes;
    return offset;
  };
  Elf64_Shdr sections[3] = {};
  sections[1].sh_offset = add(names);
  sections[1].sh_size = names.size();
  sections[2].sh_name = 1;
  sections[2].sh_offset = add(record);
  sections[2].sh_size = record.size();
  while (file.size() % 8 != 0) file += '\0';
  header.e_shoff = add(std::string_view(reinterpret_cast<const char*>(sections), sizeof sections));
  header.e_shnum = record.empty() ? 2 : 3;
  header.e_shstrndx = 1;
  std::memcpy(file.data(), &header, sizeof header);
  file.append(extra_bytes, 'x');
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("a fatbin holds each cubin with its architecture, as the package reader sees it") {
  const auto old_cubin = fake_cubin("", 3), new_cubin = fake_cubin("0123456789");
  const FatbinImage images[] = {{"sm_80", old_cubin},
                                {"sm_90a", new_cubin},
                                {"sm_100f", new_cubin},
                                {"sm_120", new_cubin},
                                {"sm_121", old_cubin}};
  const auto fatbin = make_fatbin(images);
  REQUIRE(fatbin.ok());
  auto twice = *fatbin;
  twice.insert(twice.end(), fatbin->begin(), fatbin->end());
  const auto containers = package::read_fatbins(twice);
  REQUIRE(containers.ok());
  REQUIRE(containers->size() == 2);
  for (const package::FatbinContainer& container : *containers) {
    REQUIRE(container.entries.size() == std::size(images));
    for (size_t i = 0; i < std::size(images); ++i) {
      const package::FatbinEntry& entry = container.entries[i];
      CHECK(entry.arch == images[i].arch);
      CHECK(entry.bytes == static_cast<int64_t>((images[i].cubin.size() + 7) / 8 * 8));
      CHECK(std::memcmp(twice.data() + container.offset + entry.offset, images[i].cubin.data(),
                        images[i].cubin.size()) == 0);
    }
  }
  // The record follows the header of an entry from compute capability 10.0 on, and is not there before.
  const auto header_of = [&](size_t i) {
    return std::string_view(reinterpret_cast<const char*>(fatbin->data()) + containers->at(0).entries[i].offset - 112,
                            112);
  };
  CHECK(header_of(3).substr(64, 19) == std::string_view("\x48\0\0\0\x0a\0\0\0\0"
                                                        "0123456789",
                                                        19));
  CHECK(header_of(1).find("0123456789") == std::string_view::npos);
}

TEST_CASE("what is no cubin does not get into a fatbin") {
  const auto cubin = fake_cubin("");
  auto other_machine = cubin;
  other_machine[18] = std::byte{62};
  const std::vector<std::byte> empty;
  for (const FatbinImage& image : {FatbinImage{"sm_80", empty}, FatbinImage{"sm_80", other_machine},
                                   FatbinImage{"sm_x", cubin}, FatbinImage{"", cubin}}) {
    CHECK(make_fatbin(std::span(&image, 1)).error().first().id == "E725");
  }
  const auto long_record = fake_cubin(std::string(100, 'r'));
  const FatbinImage image = {"sm_120", long_record};
  CHECK(make_fatbin(std::span(&image, 1)).error().first().id == "E725");
  // Section headers that point anywhere are only not found.
  for (size_t i = 0x28; i < cubin.size(); ++i) {
    auto damaged = cubin;
    damaged[i] = std::byte{0xFF};
    const FatbinImage damaged_image = {"sm_120", damaged};
    (void)make_fatbin(std::span(&damaged_image, 1)).ok();
  }
}

CompiledKernel sample_kernel() {
  CompiledKernel kernel;
  kernel.resources = {"sm_120", 32, 1024, 8, 16, 0, 0};
  kernel.cubin = fake_cubin("abc");
  return kernel;
}

TEST_CASE("the kernel cache gives back what was stored, and nothing else") {
  const TempFolder folder;
  const auto cache = KernelCache::open(folder / "a/b");
  REQUIRE(cache.ok());
  const std::string_view parts[] = {"text", "sm_120"}, other_parts[] = {"texts", "m_120"};
  const std::string key = KernelCache::key(parts);
  CHECK(key.size() == 64);
  CHECK(key != KernelCache::key(other_parts));
  CHECK(!cache->load(key));
  const CompiledKernel kernel = sample_kernel();
  REQUIRE(cache->store(key, kernel));
  REQUIRE(cache->store(key, kernel));
  const auto loaded = KernelCache::open(folder / "a/b")->load(key);
  REQUIRE(loaded);
  CHECK(loaded->cubin == kernel.cubin);
  CHECK(loaded->resources == kernel.resources);
  struct stat status;
  REQUIRE(stat((folder / "a/b").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("a damaged entry of the kernel cache is as good as none") {
  const TempFolder folder;
  const auto cache = KernelCache::open(folder / "cache");
  const std::string_view parts[] = {"text"};
  const std::string key = KernelCache::key(parts);
  REQUIRE(cache->store(key, sample_kernel()));
  const std::string path = concat(folder / "cache", "/", key.substr(0, 2), "/", key.substr(2));
  const std::string good = *read_text_file(path, 1 << 20);
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    TempFolder::write(path, damaged);
    REQUIRE(!cache->load(key));
    TempFolder::write(path, good.substr(0, i));
    REQUIRE(!cache->load(key));
  }
  TempFolder::write(path, good);
  CHECK(cache->load(key));
  fs::remove(path);
  fs::create_directory(path);
  CHECK(!cache->load(key));
  CHECK(!cache->store(key, sample_kernel()));
}

TEST_CASE("the folder of the kernel cache follows the XDG rules") {
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(default_kernel_cache() == "/cache/rtx");
  setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(default_kernel_cache() == "/home/someone/.cache/rtx");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  CHECK(default_kernel_cache().empty());
}

}  // namespace
}  // namespace rtx::codegen
