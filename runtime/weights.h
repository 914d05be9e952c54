// The weights of a package on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device.h"

namespace rtx::runtime {

struct WeightOptions {
  // Size of each of the two host buffers that the file goes through.
  int64_t piece_bytes = int64_t{8} << 20;
  // Compare the SHA-256 of the file with the manifest.
  bool verify = true;
};

struct DeviceWeights {
  std::unique_ptr<TensorStorage> storage;
  // In the order of Manifest::weights.
  std::vector<DevicePointer> addresses;
  std::vector<int64_t> bytes;
};

// Reads weights.safetensors once, from front to back, and hashes and copies each piece on the way. Errors: E611 if the
// file is not the one of the manifest, E618 if it lacks a weight, and those of the device.
Result<DeviceWeights> load_weights(const package::Package& package, Device& device, const WeightOptions& options = {});

}  // namespace rtx::runtime
