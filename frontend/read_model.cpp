#include "frontend/read_model.h"

#include <google/protobuf/io/coded_stream.h>

#include "base/text.h"
#include "frontend/read_graph.h"
#include "frontend/sort_nodes.h"
#include "frontend/wire_scan.h"

namespace rtx::onnx {
namespace {

Diagnostic invalid(std::string_view id, std::string message) {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

// What to do about an error whose place knows nothing better.
std::string_view general_help(std::string_view id) {
  struct Help {
    std::string_view id, text;
  };
  constexpr std::string_view damaged = "the file is cut or damaged; copy or export it again";
  constexpr std::string_view exporter = "the exporter or an editing tool wrote it wrongly; export the model again";
  constexpr std::string_view data = "copy the model together with its data, or export it again";
  constexpr Help helps[] = {
      {"E101", "name a .onnx file that an exporter wrote"},
      {"E102", damaged},
      {"E110", damaged},
      {"E111", "rename it in the exporter"},
      {"E112", "export the model with a supported opset"},
      {"E201", "a graph must not depend on its own results; export the model again"},
      {"E203", "the model may have been cut out of a larger one, or edited wrongly"},
      {"E206", "functions of a model must not call themselves"},
      {"E303", damaged},
      {"E311", "put the data into the folder of the model, and name it by a relative path"},
      {"E314", data},
      {"E315", exporter},
      {"E316", data},
      {"E901", "check the path and the permissions"},
  };
  for (const Help& help : helps)
    if (help.id == id) return help.text;
  return exporter;
}

Error with_help(Error error) {
  for (Diagnostic& diagnostic : error.diagnostics)
    if (diagnostic.help.empty()) diagnostic.help = general_help(diagnostic.id);
  return error;
}

Result<std::unique_ptr<onnx_schema::ModelProto>> parse(const File& file, const ReadLimits& limits) {
  RTX_ASSIGN(const std::string scanned, scan_model_file(file, limits));
  auto proto = std::make_unique<onnx_schema::ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(scanned.data()),
                                                static_cast<int>(scanned.size()));
  stream.SetRecursionLimit(max_message_depth(limits) + 1);
  if (!proto->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalid("E102", "truncated or malformed: the protobuf parser refuses the file");
  return proto;
}

Result<void> check_version(const onnx_schema::ModelProto& proto) {
  if (!proto.has_ir_version()) return invalid("E110", "missing ir_version");
  if (proto.ir_version() < 1)
    return invalid("E112", concat("ir_version is ", proto.ir_version())).with_expected("1 or more");
  if (proto.ir_version() > onnx_schema::IR_VERSION)
    return make_error(ErrorKind::unsupported, "E112", concat("ir_version ", proto.ir_version(), " is not supported"))
        .with_expected(concat("at most ", static_cast<int>(onnx_schema::IR_VERSION)))
        .with_help("export the model with an older version of ONNX");
  if (!proto.has_graph()) return invalid("E110", "missing graph");
  if (proto.opset_import_size() == 0 && proto.ir_version() >= 3) return invalid("E110", "missing opset_import");
  return Ok{};
}

Result<Model> read(std::shared_ptr<const File> file, const ReadOptions& options) {
  RTX_ASSIGN(std::unique_ptr<onnx_schema::ModelProto> proto, parse(*file, options.limits));
  RTX_TRY(check_version(*proto));

  Model model;
  model.path = file->path();
  model.ir_version = proto->ir_version();
  model.producer = proto->producer_name();
  if (!proto->producer_version().empty()) model.producer += " " + proto->producer_version();
  RTX_ASSIGN(model.opsets, read_opsets(proto->opset_import()));
  if (proto->opset_import_size() == 0) model.opsets[""] = 1;  // versions 1 and 2 had no imports

  ExternalFiles external(file->path(), options.follow_symlinks_within);
  TensorSource tensors = {file, external, options.limits};
  GraphContext context = {tensors, model.ir_version, &model.opsets, false};
  std::vector<Function> functions;
  for (auto& function : *proto->mutable_functions()) {
    RTX_ASSIGN(Function read_one, read_function(function, context));
    functions.push_back(std::move(read_one));
  }
  RTX_ASSIGN(model.graph, read_graph(*proto->mutable_graph(), context, true));
  RTX_TRY(check_total_bytes(tensors));
  proto.reset();
  RTX_ASSIGN(model.functions, inline_functions(model.graph, std::move(functions), options.limits));
  RTX_TRY(check_and_sort(model.graph));
  return model;
}

}  // namespace

Result<Model> read_model(const std::string& path, const ReadOptions& options) {
  Result<std::shared_ptr<const File>> file = File::open(path);
  if (!file) return with_help(std::move(file).error());
  Result<Model> model = read(std::move(file).value(), options);
  if (!model) return with_help(std::move(model).error()).within(escape_text(path));
  return model;
}

}  // namespace rtx::onnx
