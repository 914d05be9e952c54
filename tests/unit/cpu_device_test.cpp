// The CPU device behind the interfaces of runtime/device.h, with packages made by hand.
#include "runtime/cpu/cpu_device.h"

#include "ir/text.h"
#include "runtime/session.h"
#include "tests/unit/cpu_body.h"
#include "tests/unit/test_package.h"

namespace rtx::runtime {
namespace {

std::string add_body() {
  BodyCase body;
  const Dim n = Dim::symbol("n");
  Value* x = body.block.add_argument({DType::f32, {n, 4}});
  Value* y = body.block.add_argument({DType::f32, {4}});
  body.yield({body.op(Op::add, {x, y})});
  return print_body(body.block);
}

package::Package make_package(std::string body) {
  package::Package package;
  package.manifest.symbols = {{"n", 0, 100, 0}};
  package::Kernel kernel;
  kernel.name = "pointwise_0";
  kernel.kind = "pointwise";
  kernel.body = std::move(body);
  package.manifest.kernels.push_back(std::move(kernel));
  return package;
}

TEST_CASE("a kernel runs from its body on buffers of the device") {
  auto device = make_cpu_device(2);
  CHECK(device->info().id == "cpu");
  CHECK(device->info().arch == "cpu");
  const package::Package package = make_package(add_body());
  auto module = must(device->load(package));
  auto stream = must(device->create_stream());
  for (int64_t n : {3, 0, 1}) {
    const int64_t symbols[] = {n};
    auto kernel = must(module->prepare(0, symbols));
    const Tensor x = random_tensor(DType::f32, {n, 4}, 1), y = random_tensor(DType::f32, {4}, 2);
    auto x_storage = must(device->allocate(n * 16)), y_storage = must(device->allocate(16)),
         z_storage = must(device->allocate(n * 16));
    must(device->copy_to_device(*stream, x_storage->address(), x.bytes));
    must(device->copy_to_device(*stream, y_storage->address(), y.bytes));
    const DevicePointer buffers[] = {x_storage->address(), y_storage->address(), z_storage->address()};
    must(kernel->enqueue(*stream, buffers));
    Tensor z(DType::f32, {n, 4});
    must(device->copy_to_host(*stream, z.bytes, z_storage->address()));
    must(stream->synchronize());
    for (int64_t i = 0; i < z.element_count(); ++i)
      CHECK(z.data<float>()[i] == x.data<float>()[i] + y.data<float>()[i % 4]);
    CHECK(!kernel->enqueue(*stream, std::span(buffers).first(2)));
  }
}

// The bodies of the test package, whose `n` must be 4.
void add_bodies(package::Package& package) {
  const Dim batch = Dim::symbol("batch");
  BodyCase add, twice;
  Value *x = add.block.add_argument({DType::f32, {batch, 4}}), *w = add.block.add_argument({DType::f32, {4}});
  add.yield({add.op(Op::add, {x, w})});
  Value* y = twice.block.add_argument({DType::f32, {batch, 4}});
  twice.yield({twice.op(Op::add, {y, y})});
  package.manifest.kernels[0].body = print_body(add.block);
  package.manifest.kernels[1].body = print_body(twice.block);
}

TEST_CASE("a session runs a package, and refuses buffers that are too small for their kernel") {
  TempFolder folder;
  auto device = make_cpu_device(2);
  package::Package package = make_test_package(folder);
  add_bodies(package);
  auto model = must(Model::load(std::move(package), *device));
  auto session = must(Session::create(*model));
  const Tensor x = random_tensor(DType::f32, {3, 4}, 1);
  const auto y = must(session->run(std::vector{HostTensor{DType::f32, {3, 4}, x.bytes}}));
  const float w[] = {10, 20, 30, 40};
  for (int i = 0; i < 12; ++i) {
    CHECK(reinterpret_cast<const float*>(y[0].bytes.data())[i] == 2 * (x.data<float>()[i] + w[i % 4]));
  }
  const auto refused = session->run(std::vector{HostTensor{DType::f32, {3, 3}, std::vector<std::byte>(36)}});
  REQUIRE(!refused);
  CHECK(refused.error().first().id == "E606");
  CHECK(refused.error().first().kind == ErrorKind::integrity);
}

TEST_CASE("storage is aligned, may be empty, and says when there is no memory") {
  auto device = make_cpu_device(1);
  for (int64_t bytes : {0, 1, 1000, 1 << 20}) {
    auto storage = must(device->allocate(bytes));
    CHECK(storage->bytes() == bytes);
    CHECK(storage->address() != 0);
    CHECK(storage->address() % 256 == 0);
  }
  for (int64_t bytes : {int64_t{1} << 62, int64_t{-1}}) {
    auto refused = device->allocate(bytes);
    REQUIRE(!refused);
    CHECK(refused.error().first().id == "E801");
    CHECK(refused.error().first().kind == ErrorKind::out_of_memory);
  }
}

TEST_CASE("events measure time between them") {
  auto device = make_cpu_device(1);
  auto stream = must(device->create_stream());
  auto start = must(device->create_event()), stop = must(device->create_event());
  must(start->record(*stream));
  must(stop->record(*stream));
  CHECK(must(stop->elapsed_ns_since(*start)) >= 0);
}

TEST_CASE("a body that does not parse is an error at load that names the kernel") {
  auto device = make_cpu_device(1);
  const package::Package package = make_package("nonsense");
  auto module = device->load(package);
  REQUIRE(!module);
  CHECK(to_string(module.error().first()).find("pointwise_0") != std::string::npos);
}

TEST_CASE("a size that is negative under a binding is an error") {
  BodyCase body;
  Value* x = body.block.add_argument({DType::f32, {Dim::symbol("n") - 5}});
  body.yield({body.op(Op::neg, {x})});
  auto device = make_cpu_device(1);
  const package::Package package = make_package(print_body(body.block));
  auto module = must(device->load(package));
  const int64_t small[] = {3}, large[] = {8};
  auto refused = module->prepare(0, small);
  REQUIRE(!refused);
  CHECK(refused.error().first().id == "E504");
  CHECK(module->prepare(0, large).ok());
}

}  // namespace
}  // namespace rtx::runtime
