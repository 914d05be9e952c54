#include "runtime/session.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/test_package.h"

namespace rtx::runtime {
namespace {

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

struct Loaded {
  TempFolder folder;
  FakeDevice device;
  std::unique_ptr<Model> model;

  explicit Loaded(const WeightOptions& options = {}) {
    add_test_kernels(device);
    auto loaded = Model::load(make_test_package(folder), device, options);
    REQUIRE(loaded.ok());
    model = std::move(loaded).value();
  }
  std::unique_ptr<Session> session(const SessionOptions& options = {}) {
    return Session::create(*model, {}, options).value();
  }
};

TEST_CASE("a session runs the steps in order over weights, arena and outputs") {
  Loaded l;
  auto session = l.session();
  const auto outputs = session->run(std::vector{floats({1, 5}, {1, 2, 3, 4, 5})});
  REQUIRE(outputs.ok());
  REQUIRE(outputs->size() == 1);
  CHECK(outputs->front().shape == std::vector<int64_t>{1, 5});
  CHECK(values(outputs->front()) == std::vector<float>{22, 44, 66, 88, 30});
}

TEST_CASE("the program is the one that an input selects, and no other takes that input") {
  package::Manifest manifest;
  for (bool value : {true, false}) {
    package::Program program;
    program.name = value ? "main.true" : "main.false";
    program.inputs = {{"cache", DType::boolean, {package::Formula(1)}}};
    program.when = package::Selector{0, value};
    manifest.programs.push_back(program);
  }
  for (bool value : {true, false}) {
    const HostTensor cache{DType::boolean, {1}, {std::byte{value}}};
    const auto chosen = choose_program(manifest, {}, {&cache, 1});
    REQUIRE(chosen.ok());
    CHECK((*chosen)->when->value == value);
    CHECK(is_selected(**chosen, {&cache, 1}));
    CHECK(!is_selected(manifest.programs[value ? 1 : 0], {&cache, 1}));
    CHECK((*choose_program(manifest, "main.true", {&cache, 1}))->name == "main.true");
  }
  manifest.programs.pop_back();
  const HostTensor other{DType::boolean, {1}, {std::byte{0}}};
  CHECK(choose_program(manifest, {}, {&other, 1}).error().first().id == "E005");
}

TEST_CASE("of the variants that have these sizes the most specific one is chosen, and it takes no others") {
  Loaded l;
  package::Manifest manifest = l.model->manifest();
  auto add = [&](std::string name, std::vector<package::Variant::FixedDim> dims) {
    manifest.programs.push_back(manifest.programs[0]);
    manifest.programs.back().name = std::move(name);
    manifest.programs.back().variant = package::Variant{0, std::move(dims)};
  };
  add("batch 2", {{0, 2}});
  add("batch 2, n 3", {{0, 2}, {1, 3}});
  add("n 3", {{1, 3}});
  auto chosen = [&](int64_t batch, int64_t n, const SymbolValues& given = {}) {
    const std::vector inputs{floats({batch, n}, std::vector<float>(static_cast<size_t>(batch * n)))};
    return (*choose_program(manifest, {}, inputs, given))->name;
  };
  CHECK(chosen(2, 3) == "batch 2, n 3");
  CHECK(chosen(2, 4) == "batch 2");
  CHECK(chosen(1, 3) == "n 3");
  CHECK(chosen(1, 4) == "main");
  CHECK(chosen(9, 3) == "main");  // outside the range of batch, which the session says
  CHECK(chosen(2, 3, {{"batch", 1}}) == "main");
  const std::vector<TensorType> types = {{DType::f32, {2, 4}}};
  CHECK(*bind_symbols(manifest, manifest.programs[1], types) == std::vector<int64_t>{2, 4});
  CHECK(bind_symbols(manifest, manifest.programs[2], types).error().first().id == "E376");
}

TEST_CASE("weights arrive whole whatever the size of the pieces") {
  for (int64_t piece : {1, 3, 7, 16, 100, 1 << 20}) {
    CAPTURE(piece);
    Loaded l({.piece_bytes = piece});
    auto session = l.session();
    const auto outputs = session->run(std::vector{floats({1, 4}, {0, 0, 0, 0})});
    REQUIRE(outputs.ok());
    CHECK(values(outputs->front()) == std::vector<float>{20, 40, 60, 80});
  }
}

TEST_CASE("a weights file that is not the manifest's is refused after one read") {
  TempFolder folder;
  FakeDevice device;
  package::Package package = make_test_package(folder);
  package.manifest.files[0].sha256[5] ^= 1;
  package::Package unverified = package;
  const auto model = Model::load(std::move(package), device, {});
  REQUIRE(!model.ok());
  CHECK(model.error().first().id == "E611");
  CHECK(model.error().first().kind == ErrorKind::integrity);
  CHECK(Model::load(std::move(unverified), device, {.verify = false}).ok());
}

TEST_CASE("a manifest weight that the file lacks is an error") {
  TempFolder folder;
  FakeDevice device;
  package::Package package = make_test_package(folder);
  package.manifest.weights[0] = "absent";
  const auto model = Model::load(std::move(package), device, {});
  REQUIRE(!model.ok());
  CHECK(model.error().first().id == "E618");
}

TEST_CASE("dims seen before prepare and allocate nothing") {
  Loaded l;
  auto session = l.session();
  REQUIRE(session->run(std::vector{floats({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
  REQUIRE(session->run(std::vector{floats({1, 1}, {1})}).ok());
  l.device.log.clear();
  REQUIRE(session->run(std::vector{floats({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
  CHECK(l.device.log == std::vector<std::string>{"copy to device 24", "enqueue add", "enqueue double",
                                                 "copy to host 24", "synchronize"});
}

TEST_CASE("the least recently used binding is dropped first") {
  Loaded l;
  auto session = l.session({.max_bindings = 2});
  const auto run = [&](int64_t n) {
    REQUIRE(session->run(std::vector{floats({1, n}, std::vector<float>(static_cast<size_t>(n)))}).ok());
  };
  run(1), run(2), run(1), run(3);  // 2 goes
  CHECK(l.device.count("prepare add") == 3);
  run(1), run(3);
  CHECK(l.device.count("prepare add") == 3);
  run(2);
  CHECK(l.device.count("prepare add") == 4);
}

TEST_CASE("buffers grow and never shrink") {
  Loaded l;
  auto session = l.session();
  REQUIRE(session->run(std::vector{floats({1, 4}, {1, 2, 3, 4})}).ok());
  const int64_t small = session->device_bytes();
  REQUIRE(session->run(std::vector{floats({8, 100}, std::vector<float>(800))}).ok());
  const int64_t large = session->device_bytes();
  CHECK(large > small);
  REQUIRE(session->run(std::vector{floats({1, 4}, {1, 2, 3, 4})}).ok());
  CHECK(session->device_bytes() == large);
}

TEST_CASE("an input with no elements runs") {
  Loaded l;
  auto session = l.session();
  const auto outputs = session->run(std::vector{floats({3, 0}, {})});
  REQUIRE(outputs.ok());
  CHECK(outputs->front().shape == std::vector<int64_t>{3, 0});
  CHECK(outputs->front().bytes.empty());
}

TEST_CASE("inputs that do not fit the program name what was expected") {
  Loaded l;
  auto session = l.session();
  const auto error = [&](std::vector<HostTensor> inputs) {
    auto outputs = session->run(inputs);
    REQUIRE(!outputs.ok());
    return outputs.error().first();
  };
  CHECK(error({}).id == "E371");
  CHECK(error({floats({1, 1}, {1}), floats({1, 1}, {1})}).id == "E371");
  HostTensor integers = floats({1, 1}, {1});
  integers.dtype = DType::i32;
  CHECK(error({integers}).id == "E373");
  CHECK(error({floats({1}, {1})}).id == "E374");
  CHECK(error({floats({1, 1, 1}, {1})}).id == "E374");
  const Diagnostic range = error({floats({9, 1}, std::vector<float>(9))});
  CHECK(range.id == "E377");
  CHECK(range.kind == ErrorKind::invalid);
  CHECK(range.where == "input 'x' axis 0");
  CHECK(range.expected == "batch from 1 to 8");
  CHECK(range.got == "9");
  CHECK(error({floats({1, 2}, {1})}).id == "E379");
  // And the session still works.
  CHECK(session->run(std::vector{floats({1, 1}, {1})}).ok());
}

TEST_CASE("a buffer larger than its memory is refused before a kernel could overrun it") {
  TempFolder folder;
  FakeDevice device;
  package::Package package = make_test_package(folder);
  package.manifest.programs[0].buffers[3].bytes = formula("4*batch*n + 1");
  auto model = Model::load(std::move(package), device, {}).value();
  auto session = Session::create(*model).value();
  const auto outputs = session->run(std::vector{floats({1, 4}, {1, 2, 3, 4})});
  REQUIRE(!outputs.ok());
  CHECK(outputs.error().first().id == "E606");
}

// A session over the package with scratch, and what its kernel `add` saw of it.
struct WithScratch {
  TempFolder folder;
  FakeDevice device;
  std::unique_ptr<Model> model;
  std::vector<bool> were_zero;       // the counters, at each launch of `add`
  std::vector<uint8_t> first_bytes;  // of its workspace
  bool leaves_zero = true;

  explicit WithScratch(const std::function<void(package::Package&)>& change = {}) {
    add_test_kernels(device);
    const auto plain_add = device.kernels["add"];
    device.kernels["add"] = [this, plain_add](std::span<const DevicePointer> b, std::span<const int64_t> symbols) {
      REQUIRE(b.size() == 5);
      const int64_t count = symbols[0] * symbols[1];
      auto* workspace = reinterpret_cast<uint8_t*>(b[3]);
      auto* counters = reinterpret_cast<uint32_t*>(b[4]);
      CHECK(b[3] % 16 == 0);
      CHECK(b[4] % 16 == 0);
      CHECK((b[3] >= b[2] + 4 * static_cast<uint64_t>(count) || b[2] >= b[3] + 4 * static_cast<uint64_t>(count)));
      first_bytes.push_back(workspace[0]);
      were_zero.push_back(std::all_of(counters, counters + symbols[0], [](uint32_t c) { return c == 0; }));
      std::memset(workspace, 0x55, 4 * static_cast<size_t>(count));
      std::fill_n(counters, symbols[0], leaves_zero ? 0u : 1u);
      plain_add(b.first(3), symbols);
    };
    package::Package package = make_test_package(folder);
    add_scratch(package);
    if (change) change(package);
    model = Model::load(std::move(package), device, {}).value();
  }
  std::string outcome(Session& session, int64_t batch) {
    const auto outputs =
        session.run(std::vector{floats({batch, 2}, std::vector<float>(2 * static_cast<size_t>(batch), 1))});
    if (!outputs) return outputs.error().first().id;
    return values(outputs->front())[0] == 22 ? "ok" : "wrong";
  }
};

TEST_CASE("a kernel gets its workspace and counters that are zero, whatever the binding") {
  WithScratch l;
  auto session = Session::create(*l.model).value();
  for (int64_t batch : {1, 8, 1, 2}) CHECK(l.outcome(*session, batch) == "ok");
  CHECK(l.were_zero == std::vector<bool>{true, true, true, true});
  // Once: 8 counters take what one does, a multiple of 256 bytes.
  CHECK(l.device.count("fill 256") == 1);
  l.leaves_zero = false;  // control: nobody else puts them back
  CHECK(l.outcome(*session, 1) == "ok");
  CHECK(l.outcome(*session, 1) == "ok");
  CHECK(l.were_zero.back() == false);
}

TEST_CASE("counters that could not be made zero are not used") {
  for (int fail_at = 0; fail_at < 40; ++fail_at) {
    WithScratch l;
    auto session = Session::create(*l.model).value();
    l.device.fail_at = l.device.calls + fail_at;
    if (l.outcome(*session, 1) == "ok") break;
    CHECK(l.outcome(*session, 1) == "ok");
    CHECK(std::all_of(l.were_zero.begin(), l.were_zero.end(), [](bool zero) { return zero; }));
    CHECK(fail_at < 39);
  }
}

TEST_CASE("poison fills the arena and the outputs before each run") {
  WithScratch l;
  auto session = Session::create(*l.model, {}, {.poison = true}).value();
  for (int run = 0; run < 2; ++run) CHECK(l.outcome(*session, 1) == "ok");
  CHECK(l.first_bytes == std::vector<uint8_t>{0xff, 0xff});
  auto plain = Session::create(*l.model).value();
  for (int run = 0; run < 2; ++run) CHECK(l.outcome(*plain, 1) == "ok");
  CHECK(l.first_bytes.back() == 0x55);
  l.device.kernels.erase("double");  // writes nothing
  CHECK(l.outcome(*session, 1) == "wrong");
}

TEST_CASE("scratch that is smaller than what the kernel takes is refused") {
  auto outcome = [](const std::function<void(package::Package&)>& change) {
    WithScratch l(change);
    return l.outcome(*Session::create(*l.model).value(), 2);
  };
  using package::Package;
  CHECK(outcome([](Package& p) { p.manifest.kernels[0].launch->workspace_bytes = formula("4*batch*n + 1"); }) ==
        "E606");
  CHECK(outcome([](Package& p) { p.manifest.kernels[0].launch->workspace_bytes = formula("0 - 1"); }) == "E606");
  CHECK(outcome([](Package& p) { p.manifest.programs[0].buffers[4].bytes = formula("4*batch*n - 1"); }) == "E606");
  CHECK(outcome([](Package& p) { p.manifest.kernels[0].launch->counters = formula("batch + 1"); }) == "E606");
  CHECK(outcome([](Package& p) { p.manifest.kernels[0].launch->counters = formula("0 - batch"); }) == "E606");
  CHECK(outcome([](Package& p) { p.manifest.kernels[0].launch->counters = formula("4611686018427387904"); }) == "E506");
  CHECK(outcome([](Package& p) { p.manifest.programs[0].buffers[5].bytes = formula("0 - 4*batch"); }) == "E506");
  CHECK(outcome([](Package& p) { p.manifest.programs[0].buffers[5].bytes = formula("9223372036854775807"); }) ==
        "E506");
}

TEST_CASE("every device call that fails gives an error, leaks nothing and leaves a session that can go on") {
  int failures = 0;
  for (int fail_at = 0;; ++fail_at) {
    FakeDevice device;
    add_test_kernels(device);
    {
      TempFolder folder;
      device.fail_at = fail_at;
      auto model = Model::load(make_test_package(folder), device, {});
      if (model) {
        auto session = Session::create(**model);
        if (session) {
          const std::vector inputs{floats({2, 2}, {1, 2, 3, 4})};
          const auto outputs = (*session)->run(inputs);
          if (!outputs) {
            CHECK(outputs.error().first().message.find("injected failure") != std::string::npos);
            device.fail_at = -1;
            const auto again = (*session)->run(inputs);
            REQUIRE(again.ok());
            CHECK(values(again->front()) == std::vector<float>{22, 44, 66, 88});
            ++failures;
          } else {
            fail_at = -2;  // no call left to fail
          }
        }
      }
    }
    CHECK(device.live == 0);
    if (fail_at == -2) break;
  }
  CHECK(failures >= 8);
}

TEST_CASE("a failing step is named with its kernel and its ONNX nodes") {
  Loaded l;
  auto session = l.session();
  REQUIRE(session->run(std::vector{floats({1, 1}, {1})}).ok());
  // copy to device, enqueue add, enqueue double
  l.device.fail_at = l.device.calls + 2;
  const auto outputs = session->run(std::vector{floats({1, 1}, {1})});
  REQUIRE(!outputs.ok());
  const std::string& where = outputs.error().first().where;
  CHECK(where == "program 'main' step 1 (kernel 'double', from 'Mul_2', 'Mul_3')");
}

}  // namespace
}  // namespace rtx::runtime
