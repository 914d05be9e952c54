// A module on disk: NAME.rtxir (text) and, where it has weights, NAME.safetensors beside it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ir/module.h"

namespace rtx {

// "m.rtxir" -> "m.safetensors"; any other ending is kept: "m.txt" -> "m.txt.safetensors".
std::string weights_path(const std::string& module_path);

// Reads the text and opens the weights file if there is one. "-" reads the standard input, without weights.
Result<std::unique_ptr<Module>> load_module(const std::string& path);

// Writes the weights that the module uses (in name order), then the text; each appears whole or not at all, the text
// last. A module that uses no weights writes no weights file. `on_progress`: see WriteSafetensorsOptions.
Result<void> save_module(const Module& module, const std::string& path,
                         const std::function<void(int64_t done, int64_t all)>& on_progress = {});

// The names of all weights that the module's operations use, sorted, each once.
std::vector<std::string> used_weights(const Module& module);

}  // namespace rtx
