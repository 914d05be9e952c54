// A package loaded on a device: its kernels and its weights. Sessions (runtime/session.h) run it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/bind_symbols.h"
#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "runtime/weights.h"

namespace rtx::runtime {

// The program of that name, or with an empty name the first; E005 lists what there is.
Result<const package::Program*> find_program(const package::Manifest& manifest, const std::string& name);

// The program for these inputs and the dims `given` by name. With a name the one of that name. Else the first that is
// for every call, or the one that an input selects (package::Program::when); its place in `inputs` is the same for all
// of them. Of that one's variants (package::Program::variant) whose dims have these sizes, the first one with the most
// dims; without any, itself. E005 where none fits.
Result<const package::Program*> choose_program(const package::Manifest& manifest, const std::string& name,
                                               std::span<const HostTensor> inputs, const SymbolValues& given = {});

// False if an input has another value than package::Program::when asks for.
bool is_selected(const package::Program& program, std::span<const HostTensor> inputs);

class Model {
 public:
  // Opens and checks the package, checks that the device can run it, loads it. The device must outlive the model. The
  // weights file is hashed while it is copied, so it is read once.
  static Result<std::unique_ptr<Model>> load(const std::string& path, Device& device,
                                             const WeightOptions& options = {});
  // Takes over an open package.
  static Result<std::unique_ptr<Model>> load(package::Package package, Device& device,
                                             const WeightOptions& options = {});

  const package::Package& package() const { return package_; }
  const package::Manifest& manifest() const { return package_.manifest; }
  Device& device() const { return device_; }
  Module& module() const { return *module_; }
  const DeviceWeights& weights() const { return weights_; }

 private:
  Model(package::Package package, Device& device) : package_(std::move(package)), device_(device) {}

  package::Package package_;
  Device& device_;
  std::unique_ptr<Module> module_;
  DeviceWeights weights_;
};

}  // namespace rtx::runtime
