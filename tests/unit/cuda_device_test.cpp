#include "runtime/cuda_device.h"

#include <doctest/doctest.h>

#include "runtime/session.h"
#include "tests/unit/fake_cuda.h"
#include "tests/unit/test_package.h"

namespace rtx::runtime {
namespace {

// The package of test_package.h with launches, and a fatbin whose two containers start with 1 and 2.
package::Package make_cuda_package(const TempFolder& folder) {
  package::Package package = make_test_package(folder);
  package.manifest.archs = {"sm_80", "sm_90a"};
  package.fatbin.assign(40, std::byte{0});
  package.fatbin[3] = std::byte{1};
  package.fatbin[19] = std::byte{2};
  for (int i = 0; i < 2; ++i) {
    package::Launch launch;
    launch.function = i ? "double_it" : "add_it";
    launch.grid = {formula("floordiv(batch*n + 255, 256)"), formula("1"), formula("1")};
    launch.block = {256, 1, 1};
    launch.shared_bytes = formula("0");
    launch.scalars = {formula("batch*n")};
    launch.code_offset = i ? 19 : 3;
    launch.code_bytes = 16;
    package.manifest.kernels[i].launch = launch;
  }
  return package;
}

void add_kernels(FakeCuda& cuda) {
  const auto floats = [](uint64_t address) { return reinterpret_cast<float*>(address); };
  cuda.kernels["add_it"] = [=](const FakeCuda::Launch& l) {
    REQUIRE(l.parameters.size() == 4);
    for (uint64_t i = 0; i < l.parameters[3]; ++i)
      floats(l.parameters[2])[i] = floats(l.parameters[0])[i] + floats(l.parameters[1])[i % 4];
  };
  cuda.kernels["double_it"] = [=](const FakeCuda::Launch& l) {
    REQUIRE(l.parameters.size() == 3);
    for (uint64_t i = 0; i < l.parameters[2]; ++i) floats(l.parameters[1])[i] = 2 * floats(l.parameters[0])[i];
  };
}

HostTensor floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  HostTensor tensor{.dtype = DType::f32, .shape = std::move(shape), .bytes = std::vector<std::byte>(values.size() * 4)};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::vector<float> values(const HostTensor& tensor) {
  std::vector<float> result(tensor.bytes.size() / 4);
  if (!result.empty()) std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

// Opens the device, loads the package, runs it once.
Result<std::vector<HostTensor>> run_everything(FakeCuda& cuda, const package::Package& package,
                                               const std::vector<HostTensor>& inputs) {
  const auto driver = cuda.driver();
  RTX_TRY(initialise(*driver));
  RTX_ASSIGN(const auto device, CudaDevice::open(driver, 0, {.cublaslt_path = {}, .cublaslt = cuda.cublaslt()}));
  RTX_ASSIGN(const auto model, Model::load(package, *device, {.piece_bytes = 50}));
  RTX_ASSIGN(const auto session, Session::create(*model));
  return session->run(inputs);
}

TEST_CASE("the CUDA device runs a package through the driver table") {
  FakeCuda cuda;
  add_kernels(cuda);
  TempFolder folder;
  const auto outputs = run_everything(cuda, make_cuda_package(folder), {floats({1, 5}, {1, 2, 3, 4, 5})});
  REQUIRE(outputs.ok());
  CHECK(values(outputs->front()) == std::vector<float>{22, 44, 66, 88, 30});
  REQUIRE(cuda.launches.size() == 2);
  CHECK(cuda.launches[0].function == "add_it");
  CHECK(cuda.launches[0].grid == std::array<unsigned, 3>{1, 1, 1});
  CHECK(cuda.launches[0].block == std::array<unsigned, 3>{256, 1, 1});
  // Each kernel's own container was loaded, from a slice that is not aligned in the file.
  CHECK(cuda.images == std::vector<size_t>{1, 2});
  CHECK(cuda.live == 0);
}

TEST_CASE("the CUDA device passes workspace and counters after the results and before the scalars") {
  FakeCuda cuda;
  add_kernels(cuda);
  std::vector<uint32_t> counters;
  cuda.kernels["add_it"] = [&](const FakeCuda::Launch& l) {
    REQUIRE(l.parameters.size() == 6);
    CHECK(l.parameters[5] == 10);
    const auto floats = [&](int i) { return reinterpret_cast<float*>(l.parameters[static_cast<size_t>(i)]); };
    auto* own = reinterpret_cast<uint32_t*>(l.parameters[4]);
    counters.insert(counters.end(), own, own + 2);
    std::memset(floats(3), 0x55, 40);  // the workspace is not the result
    for (int i = 0; i < 10; ++i) floats(2)[i] = floats(0)[i] + floats(1)[i % 4];
    std::memset(floats(3), 0x55, 40);
  };
  TempFolder folder;
  package::Package package = make_cuda_package(folder);
  const package::Launch launch = *package.manifest.kernels[0].launch;
  add_scratch(package);
  package::Launch with_scratch = launch;
  with_scratch.workspace_bytes = package.manifest.kernels[0].launch->workspace_bytes;
  with_scratch.counters = package.manifest.kernels[0].launch->counters;
  package.manifest.kernels[0].launch = with_scratch;
  const auto outputs = run_everything(cuda, package, {floats({2, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5})});
  REQUIRE(outputs.ok());
  CHECK(values(outputs->front()) == std::vector<float>{22, 44, 66, 88, 30, 42, 64, 86, 28, 50});
  CHECK(counters == std::vector<uint32_t>{0, 0});
  CHECK(cuda.live == 0);
}

TEST_CASE("every CUDA call that fails gives an error and leaks nothing") {
  TempFolder folder;
  const package::Package package = make_cuda_package(folder);
  const std::vector inputs{floats({2, 2}, {1, 2, 3, 4})};
  int total = 0;
  {
    FakeCuda cuda;
    add_kernels(cuda);
    REQUIRE(run_everything(cuda, package, inputs).ok());
    total = cuda.calls;
  }
  CHECK(total > 40);
  int refused = 0;
  for (int fail_at = 0; fail_at < total; ++fail_at) {
    FakeCuda cuda;
    add_kernels(cuda);
    cuda.fail_at = fail_at;
    const auto outputs = run_everything(cuda, package, inputs);
    CAPTURE(cuda.log[static_cast<size_t>(fail_at)]);
    CHECK(cuda.live == 0);
    // Only a failure to free or to make the context current for freeing goes unreported.
    if (outputs.ok()) {
      const std::string& call = cuda.log[static_cast<size_t>(fail_at)];
      CHECK((call.find("Free") != std::string::npos || call.find("Destroy") != std::string::npos ||
             call == "cuModuleUnload" || call == "cuCtxSetCurrent"));
    } else {
      ++refused;
      CHECK(outputs.error().first().kind == ErrorKind::device);
    }
  }
  CHECK(refused > total / 2);
}

TEST_CASE("running out of device memory is its own error and says what was asked for") {
  FakeCuda cuda;
  cuda.memory = 1000;
  const auto device = CudaDevice::open(cuda.driver(), 0).value();
  CHECK(device->allocate(1000).ok());
  const auto storage = device->allocate(1001);
  REQUIRE(!storage.ok());
  CHECK(storage.error().first().id == "E801");
  CHECK(storage.error().first().kind == ErrorKind::out_of_memory);
  CHECK(storage.error().first().expected == "1001 bytes in one piece");
  CHECK(storage.error().first().got == "1000 of 1000 bytes are free");
}

TEST_CASE("an error that ends the context is told apart") {
  FakeCuda cuda;
  for (const cuda::Result result : {700, 702, 710, 714, 715, 716, 717, 718, 719, 214, 220})
    CHECK(cuda_error(*cuda.driver(), result, "cuX").first().id == "E705");
  for (const cuda::Result result : {1, 3, 200, 701, 703, 713, 720, 999})
    CHECK(cuda_error(*cuda.driver(), result, "cuX").first().id == "E703");
}

TEST_CASE("a package for other archs is refused before anything is loaded") {
  FakeCuda cuda;
  cuda.major = 12;
  TempFolder folder;
  const auto device = CudaDevice::open(cuda.driver(), 0).value();
  const package::Package package = make_cuda_package(folder);
  const auto module = device->load(package);
  REQUIRE(!module.ok());
  const Diagnostic& error = module.error().first();
  CHECK(error.id == "E701");
  CHECK(error.kind == ErrorKind::device);
  CHECK(error.expected == "code for sm_120 (Fake GPU)");
  CHECK(error.got == "code for sm_80, sm_90a");
  CHECK(error.help.find("--arch sm_120") != std::string::npos);
  CHECK(cuda.images.empty());
}

TEST_CASE("no driver, no device and a missing ordinal are errors of kind device") {
  FakeCuda cuda;
  CHECK(CudaDevice::open(cuda.driver(), 1).error().first().id == "E708");
  CHECK(CudaDevice::open(cuda.driver(), -1).error().first().id == "E708");
  cuda.devices = 0;
  const auto none = initialise(*cuda.driver());
  REQUIRE(!none.ok());
  CHECK(none.error().first().id == "E702");
  CHECK(none.error().first().kind == ErrorKind::device);
}

TEST_CASE("a grid or shared memory beyond the GPU's limits is refused, an empty grid runs nothing") {
  FakeCuda cuda;
  add_kernels(cuda);
  TempFolder folder;
  package::Package package = make_cuda_package(folder);
  package::Launch& launch = *package.manifest.kernels[0].launch;
  const auto prepare = [&](std::vector<int64_t> symbols) -> std::string {
    const auto device = CudaDevice::open(cuda.driver(), 0).value();
    const auto module = device->load(package).value();
    const auto kernel = module->prepare(0, symbols);
    return kernel.ok() ? "ok" : kernel.error().first().id;
  };
  launch.grid[1] = formula("n");
  CHECK(prepare({1, 65535}) == "ok");
  CHECK(prepare({1, 65536}) == "E709");
  launch.grid[1] = formula("n - 10");
  CHECK(prepare({1, 9}) == "E709");
  launch.grid[1] = formula("1");
  launch.shared_bytes = formula("n*1024");
  CHECK(prepare({1, 227}) == "ok");
  CHECK(cuda.log.back() != "cuFuncSetAttribute");
  CHECK(std::count(cuda.log.begin(), cuda.log.end(), "cuFuncSetAttribute") == 1);
  CHECK(prepare({1, 48}) == "ok");  // with static shared memory beside it that may be more than 48 KiB
  CHECK(std::count(cuda.log.begin(), cuda.log.end(), "cuFuncSetAttribute") == 2);
  CHECK(prepare({1, 228}) == "E709");
  launch.code_offset = 30;
  CHECK(prepare({1, 1}) == "E615");

  const auto device = CudaDevice::open(cuda.driver(), 0).value();
  const auto module = device->load(package).value();
  const auto stream = device->create_stream().value();
  const std::vector<int64_t> empty = {1, 0};
  const auto kernel = module->prepare(0, empty);
  REQUIRE(kernel.ok());
  CHECK((*kernel)->enqueue(*stream, {}).ok());
  CHECK(cuda.launches.empty());
}

TEST_CASE("archs run where their rules say") {
  CHECK(arch_runs_on("sm_90", {9, 0}));
  CHECK(arch_runs_on("sm_90a", {9, 0}));
  CHECK(arch_runs_on("sm_80", {8, 6}));
  CHECK(arch_runs_on("sm_100f", {10, 3}));
  CHECK(arch_runs_on("sm_120", {12, 1}));
  CHECK(!arch_runs_on("sm_120a", {12, 1}));
  CHECK(!arch_runs_on("sm_89", {8, 6}));
  CHECK(!arch_runs_on("sm_80", {9, 0}));
  CHECK(!arch_runs_on("sm_100a", {10, 3}));
  CHECK(!arch_runs_on("sm_100f", {11, 0}));
  for (const char* text : {"", "sm_", "sm_9", "sm_90b", "90", "compute_90", "sm_90aa", "sm_-90"})
    CHECK(!arch_runs_on(text, {9, 0}));
}

// Row-major [m, k] * [k, n], the definition.
std::vector<float> product(const std::vector<float>& lhs, const std::vector<float>& rhs, int64_t batch, int64_t m,
                           int64_t n, int64_t k, bool transpose_lhs, bool transpose_rhs, int64_t lhs_stride,
                           int64_t rhs_stride) {
  std::vector<float> result(static_cast<size_t>(batch * m * n));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t x = 0; x < k; ++x)
          result[static_cast<size_t>((b * m + i) * n + j)] +=
              lhs[static_cast<size_t>(b * lhs_stride + (transpose_lhs ? x * m + i : i * k + x))] *
              rhs[static_cast<size_t>(b * rhs_stride + (transpose_rhs ? j * k + x : x * n + j))];
  return result;
}

TEST_CASE("row-major products come out of the column-major library in every layout") {
  FakeCuda cuda;
  const auto device = CudaDevice::open(cuda.driver(), 0, {.cublaslt_path = {}, .cublaslt = cuda.cublaslt()}).value();
  const auto stream = device->create_stream().value();
  const int64_t m = 3, n = 5, k = 4;
  for (int64_t batch : {1, 2})
    for (bool transpose_lhs : {false, true})
      for (bool transpose_rhs : {false, true})
        for (bool shared_rhs : {false, true}) {
          package::Package package;
          package.manifest.archs = {"sm_90"};
          package::MatmulCall call;
          call.batch = package::Formula(batch);
          call.m = package::Formula(m), call.n = package::Formula(n), call.k = package::Formula(k);
          call.transpose_lhs = transpose_lhs, call.transpose_rhs = transpose_rhs;
          const int64_t lhs_stride = m * k, rhs_stride = shared_rhs ? 0 : n * k;
          call.lhs_batch_stride = package::Formula(lhs_stride), call.rhs_batch_stride = package::Formula(rhs_stride);
          package::Kernel kernel;
          kernel.matmul = call;
          package.manifest.kernels = {kernel};

          std::vector<float> lhs(static_cast<size_t>(batch * m * k)), rhs(static_cast<size_t>(batch * n * k));
          for (size_t i = 0; i < lhs.size(); ++i) lhs[i] = static_cast<float>(i * 7 % 11);
          for (size_t i = 0; i < rhs.size(); ++i) rhs[i] = static_cast<float>(i * 5 % 13) - 6;
          std::vector<float> result(static_cast<size_t>(batch * m * n));
          const auto module = device->load(package).value();
          const auto prepared = module->prepare(0, {});
          REQUIRE(prepared.ok());
          const auto address = [](const std::vector<float>& v) { return reinterpret_cast<DevicePointer>(v.data()); };
          REQUIRE((*prepared)->enqueue(*stream, std::vector{address(lhs), address(rhs), address(result)}).ok());
          CHECK(result == product(lhs, rhs, batch, m, n, k, transpose_lhs, transpose_rhs, lhs_stride, rhs_stride));
        }
}

TEST_CASE("a product adds the bias of its columns and a residual, and operands that are not there are refused") {
  FakeCuda cuda;
  const auto device = CudaDevice::open(cuda.driver(), 0, {.cublaslt_path = {}, .cublaslt = cuda.cublaslt()}).value();
  const auto stream = device->create_stream().value();
  const std::vector<float> lhs = {1, 2, 3, 4}, rhs = {1, 0, 0, 1, 1, 1}, bias = {10, 20, 30};
  const std::vector<float> residual = {100, 200, 300, 400, 500, 600};
  const auto address = [](const std::vector<float>& v) { return reinterpret_cast<DevicePointer>(v.data()); };
  for (bool biased : {false, true})
    for (bool added : {false, true}) {
      package::Package package;
      package.manifest.archs = {"sm_90"};
      package::MatmulCall call;
      call.batch = package::Formula(1), call.m = package::Formula(2);
      call.n = package::Formula(3), call.k = package::Formula(2);
      if (biased) call.bias = 2;
      if (added) call.residual = 3;
      package::Kernel kernel;
      kernel.matmul = call;
      package.manifest.kernels = {kernel};
      std::vector<float> result(6);
      const auto module = device->load(package).value();
      const auto prepared = module->prepare(0, {});
      REQUIRE(prepared.ok());
      std::vector buffers = {address(lhs), address(rhs), address(bias), address(residual), address(result)};
      REQUIRE((*prepared)->enqueue(*stream, buffers).ok());
      std::vector<float> want = {3, 2, 2, 7, 4, 4};
      for (size_t i = 0; i < want.size(); ++i) want[i] += (biased ? bias[i % 3] : 0) + (added ? residual[i] : 0);
      CHECK(result == want);
      buffers.erase(buffers.begin() + 2, buffers.begin() + 4);
      CHECK((*prepared)->enqueue(*stream, buffers).ok() == !(biased || added));
      package.manifest.kernels[0].matmul->k = package::Formula(0);
      CHECK(device->load(package).value()->prepare(0, {}).ok() == !(biased || added));
    }
}

TEST_CASE("products of nothing: k of 0 gives zeros, an empty result calls nothing, split-K is refused") {
  FakeCuda cuda;
  const auto device = CudaDevice::open(cuda.driver(), 0, {.cublaslt_path = {}, .cublaslt = cuda.cublaslt()}).value();
  const auto stream = device->create_stream().value();
  const auto run = [&](int64_t m, int64_t k, std::vector<float>& result) -> std::string {
    package::Package package;
    package.manifest.archs = {"sm_90"};
    package::MatmulCall call;
    call.batch = package::Formula(1);
    call.m = package::Formula(m), call.n = package::Formula(2), call.k = package::Formula(k);
    package::Kernel kernel;
    kernel.matmul = call;
    package.manifest.kernels = {kernel};
    const auto module = device->load(package).value();
    const auto prepared = module->prepare(0, {});
    if (!prepared) return prepared.error().first().id;
    const auto address = reinterpret_cast<DevicePointer>(result.data());
    REQUIRE((*prepared)->enqueue(*stream, std::vector{address, address, address}).ok());
    return "ok";
  };
  std::vector<float> result = {1, 2, 3, 4};
  CHECK(run(2, 0, result) == "ok");
  CHECK(result == std::vector<float>{0, 0, 0, 0});
  result = {1, 2, 3, 4};
  CHECK(run(0, 3, result) == "ok");
  CHECK(result == std::vector<float>{1, 2, 3, 4});
  CHECK(std::count(cuda.log.begin(), cuda.log.end(), "cublasLtMatmul") == 0);
  CHECK(run(int64_t{1} << 31, 1, result) == "E709");
  cuda.splits = 2;
  CHECK(run(2, 3, result) == "E707");
}

TEST_CASE("every cuBLASLt call that fails gives an error and leaks nothing") {
  package::Package package;
  package.manifest.archs = {"sm_90"};
  package::MatmulCall call;
  call.batch = call.m = call.n = call.k = package::Formula(2);
  package::Kernel kernel;
  kernel.matmul = call;
  package.manifest.kernels = {kernel};
  std::vector<float> data(16);
  const auto address = reinterpret_cast<DevicePointer>(data.data());

  const auto run = [&](FakeCuda& cuda) -> Result<void> {
    RTX_ASSIGN(const auto device,
               CudaDevice::open(cuda.driver(), 0, {.cublaslt_path = {}, .cublaslt = cuda.cublaslt()}));
    RTX_ASSIGN(const auto stream, device->create_stream());
    RTX_ASSIGN(const auto module, device->load(package));
    RTX_ASSIGN(const auto prepared, module->prepare(0, {}));
    return prepared->enqueue(*stream, std::vector{address, address, address});
  };
  int total = 0;
  {
    FakeCuda cuda;
    REQUIRE(run(cuda).ok());
    CHECK(cuda.live == 0);
    total = cuda.calls;
  }
  int refused = 0;
  for (int fail_at = 0; fail_at < total; ++fail_at) {
    FakeCuda cuda;
    cuda.fail_at = fail_at;
    refused += !run(cuda).ok();
    CAPTURE(cuda.log[static_cast<size_t>(fail_at)]);
    CHECK(cuda.live == 0);
  }
  CHECK(refused > total / 2);
}

}  // namespace
}  // namespace rtx::runtime
