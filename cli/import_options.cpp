#include "cli/import_options.h"

#include "base/nearest_name.h"
#include "base/text.h"
#include "cli/constant_options.h"
#include "cli/dim_options.h"
#include "frontend/input_dims.h"

namespace rtx::cli {

void add_onnx_options(CLI::App& app, OnnxOptions& options) {
  app.add_option("--dim", options.dims,
                 "Range of a named dim: NAME=MIN:OPT:MAX, or NAME=N for one size; may be repeated (default: 0 to 2^31)")
      ->type_name("NAME=RANGE")
      ->allow_extra_args(false);
  app.add_option("--fix-dim", options.fixed_dims, "Makes a named dim one size, as --dim NAME=N; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  const auto shapes = [&](const char* name, std::vector<std::string>& value, const char* text) {
    app.add_option(name, value, text)->type_name("INPUT:SIZES,...")->allow_extra_args(false);
  };
  shapes(
      "--minShapes", options.min_shapes,
      "Smallest shapes of inputs, as trtexec has them: input_ids:1x128,mask:1x128; they give the ranges of the dims");
  shapes("--optShapes", options.opt_shapes,
         "Shapes to plan for: the sizes expected most often (default: those of --maxShapes)");
  shapes("--maxShapes", options.max_shapes, "Largest shapes (default, as for --minShapes: those of --optShapes)");
  app.add_option(
         "--constant", options.constants,
         "Value of an input that is known now, such as axes or a shape; the input is gone then. Values with commas "
         "between them, or @FILE.npy; may be repeated")
      ->type_name("INPUT=VALUES")
      ->allow_extra_args(false);
  app.add_option("--follow-symlinks-within", options.read.follow_symlinks_within,
                 "Folder inside which external data may be reached through symbolic links (default: links are refused)")
      ->type_name("DIR");
  onnx::ReadLimits& limits = options.read.limits;
  constexpr int64_t largest_limit = int64_t{1} << 60;  // so that one more never overflows
  const auto limit = [&](const char* name, int64_t& value, const char* text) {
    app.add_option(name, value, text)
        ->group("Limits on the model")
        ->check(CLI::Range(int64_t{1}, largest_limit))
        ->capture_default_str();
  };
  limit("--max-file-bytes", limits.max_file_bytes, "Bytes of the model file");
  limit("--max-wire-fields", limits.max_wire_fields, "Fields in the model file");
  limit("--max-messages", limits.max_messages, "Messages in the model file");
  limit("--max-expansion", limits.max_expansion,
        "Memory of the parsed objects as a multiple of the file's size, beyond 192 MiB");
  limit("--max-nodes", limits.max_nodes, "Nodes in the model file");
  limit("--max-initializers", limits.max_initializers, "Initializers in the model file");
  limit("--max-rank", limits.max_rank, "Axes of a tensor");
  limit("--max-dim", limits.max_dim, "Size of an axis");
  limit("--max-tensor-bytes", limits.max_tensor_bytes, "Bytes of a tensor");
  limit("--max-sharing", limits.max_sharing,
        "Bytes of all tensors as a multiple of the bytes stored in the model and its data files, beyond 1 GiB");
  limit("--max-name-bytes", limits.max_name_bytes, "Bytes of a name");
  limit("--max-depth", limits.max_depth, "Nesting of subgraphs, and of function calls");
  limit("--max-inlined-nodes", limits.max_inlined_nodes,
        "Nodes after local functions are inlined, and nodes of unrolled loops");
  limit("--max-inlined-bytes", limits.max_inlined_bytes, "Bytes of memory that inlined nodes may take");
  limit("--max-loop-iterations", options.max_loop_iterations, "Iterations of a loop that is unrolled");
  app.get_option("--max-depth")->check(CLI::Range(1, 1000));
}

Result<OnnxInput> read_onnx(const std::string& path, const OnnxOptions& options) {
  OnnxInput input;
  input.import.max_rank = static_cast<int>(options.read.limits.max_rank);
  input.import.max_tensor_bytes = options.read.limits.max_tensor_bytes;
  input.import.max_inlined_nodes = options.read.limits.max_inlined_nodes;
  input.import.max_loop_iterations = options.max_loop_iterations;
  RTX_ASSIGN(input.import.ranges, dim_ranges(options));
  RTX_ASSIGN(input.model, onnx::read_model(path, options.read));
  RTX_ASSIGN(input.import.constants, constants_of(options.constants, input.model.graph));
  onnx::ImportOptions without_ranges;
  without_ranges.constants = input.import.constants;
  RTX_ASSIGN(const onnx::InputDims dims, onnx::input_dims(input.model, without_ranges));
  RTX_TRY(add_shape_ranges(options, dims.shapes, input.import.ranges));
  return input;
}

Result<void> apply_ranges(Module& module, const OnnxOptions& options) {
  if (!options.constants.empty())
    return make_error(ErrorKind::usage, "E001", "--constant is for .onnx files: a module has its inputs already");
  RTX_ASSIGN(Ranges ranges, dim_ranges(options));
  std::map<std::string, Shape> inputs;
  for (const auto& function : module.functions)
    for (size_t i = 0; i < function->block.argument_count(); ++i)
      inputs[function->block.argument(i)->name] = function->block.argument(i)->type.shape;
  RTX_TRY(add_shape_ranges(options, inputs, ranges));
  std::vector<std::string> known;
  for (const auto& [symbol, any] : module.symbols) known.push_back(symbol);
  for (const auto& [name, range] : ranges) {
    if (module.symbols.contains(sanitize_symbol(name))) continue;
    const std::string nearest = nearest_name(name, known);
    const auto quoted = [](const std::string& symbol) { return quote_text(symbol); };
    return make_error(ErrorKind::usage, "E001", concat("--dim: the module has no dim ", quote_text(name)))
        .with_expected(known.empty() ? std::string("no range: all dims are fixed")
                                     : concat("one of ", join(known, ", ", quoted)))
        .with_help(nearest.empty() ? std::string() : concat("did you mean ", quote_text(nearest), "?"));
  }
  for (const auto& [name, range] : ranges) {
    const std::string symbol = sanitize_symbol(name);
    if (range.min == range.max)
      module.substitute(symbol, Dim(range.min));
    else
      module.symbols[symbol] = range;
  }
  return Ok{};
}

}  // namespace rtx::cli
