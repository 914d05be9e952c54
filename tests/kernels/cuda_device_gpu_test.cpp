// The CUDA device on the first GPU of this machine: launches (of a kernel in PTX, which the driver compiles) and
// cuBLASLt products against their definition.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/text.h"
#include "runtime/compare.h"
#include "runtime/cuda_device.h"
#include "runtime/random_tensor.h"

namespace rtx::runtime {
namespace {

// out[i] = in[i] + k for i < n
constexpr std::string_view add_k_ptx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add_k(.param .u64 in, .param .u64 out, .param .u64 n, .param .u64 k)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  ld.param.u64 %d3, [n];
  ld.param.u64 %d4, [k];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %d5, %r1, %r2;
  cvt.u64.u32 %d6, %r3;
  add.s64 %d5, %d5, %d6;
  setp.ge.u64 %p1, %d5, %d3;
  @%p1 bra DONE;
  shl.b64 %d7, %d5, 3;
  add.s64 %d8, %d1, %d7;
  ld.global.u64 %d9, [%d8];
  add.s64 %d9, %d9, %d4;
  add.s64 %d10, %d2, %d7;
  st.global.u64 [%d10], %d9;
DONE:
  ret;
}
)";

std::unique_ptr<CudaDevice> open_gpu() {
  auto driver = load_cuda_driver();
  if (!driver) {
    MESSAGE("skipped: ", driver.error().first().message);
    return nullptr;
  }
  return CudaDevice::open(*driver, 0).value();
}

package::Package launch_package(Device& device) {
  package::Package package;
  package.manifest.archs = {device.info().arch};
  package::Launch launch;
  launch.function = "add_k";
  const std::vector<std::string> symbols = {"n"};
  launch.grid = {package::Formula::parse("floordiv(n + 127, 128)", symbols).value(), package::Formula(1),
                 package::Formula(1)};
  launch.block = {128, 1, 1};
  launch.scalars = {package::Formula::parse("n", symbols).value(), package::Formula(1000)};
  launch.code_bytes = static_cast<int64_t>(add_k_ptx.size()) + 1;
  package.fatbin.resize(add_k_ptx.size() + 1);
  std::memcpy(package.fatbin.data(), add_k_ptx.data(), add_k_ptx.size());
  package::Kernel kernel;
  kernel.name = "add_k";
  kernel.launch = launch;
  package.manifest.kernels = {kernel};
  return package;
}

TEST_CASE("a launch passes buffers and scalars, an empty one does nothing") {
  const auto device = open_gpu();
  if (!device) return;
  const package::Package package = launch_package(*device);
  const auto module = device->load(package).value();
  const auto stream = device->create_stream().value();
  for (const int64_t n : {0, 1, 127, 128, 129, 100'000}) {
    CAPTURE(n);
    const HostTensor in = random_tensor(DType::i64, {n}, 1, 0, {.int_low = 0, .int_high = 1'000'000'000'000}).value();
    const auto source = device->allocate(n * 8).value(), target = device->allocate(n * 8).value();
    REQUIRE(device->copy_to_device(*stream, source->address(), in.bytes).ok());
    const auto kernel = module->prepare(0, std::vector{n});
    REQUIRE(kernel.ok());
    REQUIRE((*kernel)->enqueue(*stream, std::vector{source->address(), target->address()}).ok());
    std::vector<std::byte> out(in.bytes.size());
    REQUIRE(device->copy_to_host(*stream, out, target->address()).ok());
    REQUIRE(stream->synchronize().ok());
    for (int64_t i = 0; i < n; ++i)
      REQUIRE(load_i64(DType::i64, out.data(), i) == load_i64(DType::i64, in.bytes.data(), i) + 1000);
  }
}

TEST_CASE("code that the driver refuses and functions that are not there are errors") {
  const auto device = open_gpu();
  if (!device) return;
  package::Package package = launch_package(*device);
  package.manifest.kernels[0].launch->function = "absent";
  CHECK(device->load(package).value()->prepare(0, std::vector<int64_t>{1}).error().first().id == "E703");
  package.fatbin.assign(package.fatbin.size(), std::byte{'x'});
  CHECK(device->load(package).value()->prepare(0, std::vector<int64_t>{1}).error().first().id == "E703");
}

struct Product {
  DType dtype;
  int64_t batch, m, n, k;
  bool transpose_lhs, transpose_rhs, shared_rhs;
};

HostTensor reference(const Product& p, const HostTensor& lhs, const HostTensor& rhs) {
  HostTensor result{p.dtype, {p.batch, p.m, p.n}, {}};
  result.bytes.resize(static_cast<size_t>(tensor_bytes(p.dtype, result.shape).value()));
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < p.k; ++x)
          sum += load_f64(p.dtype, lhs.bytes.data(), b * p.m * p.k + (p.transpose_lhs ? x * p.m + i : i * p.k + x)) *
                 load_f64(p.dtype, rhs.bytes.data(),
                          (p.shared_rhs ? 0 : b * p.n * p.k) + (p.transpose_rhs ? j * p.k + x : x * p.n + j));
        store_f64(p.dtype, result.bytes.data(), (b * p.m + i) * p.n + j, sum);
      }
  return result;
}

// The product on the GPU; run twice, the bits must be the same.
HostTensor run(CudaDevice& device, const Product& p, const HostTensor& lhs, const HostTensor& rhs) {
  package::Package package;
  package.manifest.archs = {device.info().arch};
  package::MatmulCall call;
  call.batch = package::Formula(p.batch), call.m = package::Formula(p.m);
  call.n = package::Formula(p.n), call.k = package::Formula(p.k);
  call.transpose_lhs = p.transpose_lhs, call.transpose_rhs = p.transpose_rhs;
  call.lhs_batch_stride = package::Formula(p.m * p.k);
  call.rhs_batch_stride = package::Formula(p.shared_rhs ? 0 : p.n * p.k);
  call.dtype = p.dtype;
  package::Kernel kernel;
  kernel.matmul = call;
  package.manifest.kernels = {kernel};
  HostTensor result{p.dtype, {p.batch, p.m, p.n}, {}};
  result.bytes.resize(static_cast<size_t>(tensor_bytes(p.dtype, result.shape).value()));
  HostTensor again = result;

  const auto module = device.load(package);
  if (!module) FAIL(to_string(module.error().first()));
  const auto stream = device.create_stream().value();
  const auto prepared = (*module)->prepare(0, {});
  if (!prepared) FAIL(to_string(prepared.error().first()));
  const auto storage = [&](const HostTensor& t) {
    return device.allocate(static_cast<int64_t>(t.bytes.size())).value();
  };
  const auto a = storage(lhs), b = storage(rhs), c = storage(result);
  REQUIRE(device.copy_to_device(*stream, a->address(), lhs.bytes).ok());
  REQUIRE(device.copy_to_device(*stream, b->address(), rhs.bytes).ok());
  for (HostTensor* out : {&result, &again}) {
    REQUIRE((*prepared)->enqueue(*stream, std::vector{a->address(), b->address(), c->address()}).ok());
    REQUIRE(device.copy_to_host(*stream, out->bytes, c->address()).ok());
  }
  REQUIRE(stream->synchronize().ok());
  CHECK(result.bytes == again.bytes);
  return result;
}

TEST_CASE("cuBLASLt products match their definition in every layout and type") {
  const auto device = open_gpu();
  if (!device) return;
  if (auto library = load_cublaslt(); !library) {
    MESSAGE("skipped: ", library.error().first().message);
    return;
  }
  const std::vector<std::array<int64_t, 4>> sizes = {{1, 1, 1, 1},  {1, 3, 5, 7},   {2, 17, 33, 64}, {3, 128, 64, 100},
                                                     {1, 1, 96, 2}, {1, 100, 1, 9}, {2, 4, 6, 0},    {1, 65, 129, 257}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const auto& [batch, m, n, k] : sizes)
      for (const int layout : {0, 1, 2, 3})
        for (const bool shared_rhs : {false, true}) {
          const Product p{dtype, batch, m, n, k, (layout & 1) != 0, (layout & 2) != 0, shared_rhs};
          CAPTURE(to_string(dtype));
          CAPTURE(concat(batch, " ", m, " ", n, " ", k, " layout ", layout));
          const RandomRange range{.float_low = -1, .float_high = 1};
          const HostTensor lhs = random_tensor(dtype, {batch, m, k}, 1, 0, range).value();
          const HostTensor rhs = random_tensor(dtype, {batch, n, k}, 1, 1, range).value();
          // f32: no TF32 (whose error norm is about 3e-4); 16-bit types: one rounding of an f32 sum.
          const double norm = dtype == DType::f64   ? 1e-14
                              : dtype == DType::f32 ? 1e-6
                              : dtype == DType::f16 ? 4e-4
                                                    : 3e-3;
          const Comparison c =
              compare(run(*device, p, lhs, rhs), reference(p, lhs, rhs), {.absolute = 1, .norm = norm});
          CAPTURE(c.norm);
          CHECK(c.ok);
        }
}

}  // namespace
}  // namespace rtx::runtime
