#include "ir/module_file.h"

#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx {

namespace {

// Text, not data: a module of a million operations takes some 200 MB.
constexpr int64_t max_text_bytes = int64_t{1} << 30;

}  // namespace

std::string weights_path(const std::string& module_path) {
  constexpr std::string_view ending = ".rtxir";
  std::string stem = module_path;
  if (stem.size() > ending.size() && stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  return stem + ".safetensors";
}

std::vector<std::string> used_weights(const Module& module) {
  std::set<std::string> names;
  for (const auto& function : module.functions)
    for (const auto& op : function->block.operations())
      if (op->is(Op::weight)) names.insert(op->attributes.string("name"));
  return {names.begin(), names.end()};
}

Result<std::unique_ptr<Module>> load_module(const std::string& path) {
  if (path == "-") {
    std::ostringstream text;
    text << std::cin.rdbuf();
    return parse_module(text.str(), "<stdin>");
  }
  RTX_ASSIGN(std::string text, read_text_file(path, max_text_bytes));
  RTX_ASSIGN(std::unique_ptr<Module> module, parse_module(text, path));
  std::error_code ignored;
  if (const std::string weights = weights_path(path); std::filesystem::exists(weights, ignored)) {
    RTX_ASSIGN(module->weights, WeightStore::open(weights));
    if (Result<void> verified = verify(*module); !verified) return std::move(verified).error().within(path);
  } else if (std::vector<std::string> names = used_weights(*module); !names.empty()) {
    return make_error(ErrorKind::io, "E904",
                      concat("'", path, "' uses ", names.size(), " weights but their file is missing"))
        .with_expected(concat("'", weights, "' beside it"));
  }
  return module;
}

Result<void> save_module(const Module& module, const std::string& path,
                         const std::function<void(int64_t done, int64_t all)>& on_progress) {
  // The text is on disk under its temporary name before the weights appear, so that a full disk leaves neither.
  RTX_ASSIGN(const std::unique_ptr<FileWriter> text, FileWriter::create(path));
  RTX_TRY(text->write(print(module)));
  const std::vector<std::string> names = used_weights(module);
  if (!names.empty()) {
    Result<WrittenSafetensors> written = module.weights->write(weights_path(path), names, {false, on_progress});
    if (!written) return std::move(written).error();
  }
  return text->commit();
}

}  // namespace rtx
