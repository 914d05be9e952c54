#include "runtime/model.h"

#include "base/text.h"

namespace rtx::runtime {

Result<const package::Program*> find_program(const package::Manifest& manifest, const std::string& name) {
  const auto& programs = manifest.programs;
  if (name.empty() && !programs.empty()) return &programs.front();
  if (const package::Program* program = manifest.find_program(name)) return program;
  return make_error(ErrorKind::usage, "E005", concat("the package has no program '", escape_text(name), "'"))
      .with_expected(join(programs, ", ", [](const package::Program& program) { return program.name; }));
}

Result<std::unique_ptr<Model>> Model::load(const std::string& path, Device& device, const WeightOptions& options) {
  RTX_ASSIGN(package::Package package, package::open_package(path, {.verify_weights = false}));
  return load(std::move(package), device, options);
}

Result<std::unique_ptr<Model>> Model::load(package::Package package, Device& device, const WeightOptions& options) {
  std::unique_ptr<Model> model(new Model(std::move(package), device));
  auto module = device.load(model->package_);
  if (!module) return std::move(module).error().within(model->package_.path);
  model->module_ = std::move(module).value();
  auto weights = load_weights(model->package_, device, options);
  if (!weights) return std::move(weights).error();
  model->weights_ = std::move(weights).value();
  return model;
}

}  // namespace rtx::runtime
