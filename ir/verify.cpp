#include "ir/verify.h"

#include <set>
#include <unordered_set>

#include "base/text.h"
#include "ir/text.h"

namespace rtx {

bool is_legal(Op op, Stage stage) {
  if (stage == Stage::imported || stage == Stage::canonical) return op != Op::fusion;
  // From `fused` on, all computation stands in fusions; what is left names data.
  return op == Op::fusion || op == Op::weight || op == Op::constant || op == Op::reshape || op == Op::yield;
}

namespace {

class Verifier {
 public:
  Verifier(const Module* module, const Locator& locate) : module_(module), locate_(locate) {}

  void function(const Function& function) {
    where_ = concat("@", function.name);
    std::set<std::string_view> names;
    for (size_t i = 0; i < function.block.argument_count(); ++i) {
      const Value* argument = function.block.argument(i);
      if (argument->name.empty() || !names.insert(argument->name).second)
        report(where_, "E155", concat("input ", i, " of '", function.name, "' has no name or one that is taken"));
      check_symbols(argument->type.shape, nullptr);
    }
    block(function.block, 0);
    const Operation* yield = function.block.terminator();
    if (yield && yield->operand_count() != function.output_names.size())
      report(where_, "E155",
             concat("'", function.name, "' yields ", yield->operand_count(), " values but names ",
                    function.output_names.size(), " outputs"));
    if (function.when && !selects(function))
      report(
          where_, "E155",
          concat("'", escape_text(function.when->input), "' is no bool input of one element of '", function.name, "'"));
    names.clear();
    for (const std::string& name : function.output_names)
      if (!names.insert(name).second)
        report(where_, "E155", concat("output '", escape_text(name), "' of '", function.name, "' is named twice"));
  }

  void block(const Block& block, int depth) {
    std::unordered_set<const Value*> defined;
    for (size_t i = 0; i < block.argument_count(); ++i) defined.insert(block.argument(i));
    for (const auto& op : block.operations()) {
      for (const Value* operand : op->operands())
        if (!defined.contains(operand))
          report(locate_(*op), "E203", concat("an operand of '", to_string(op->op), "' is not defined before its use"));
      operation(*op, depth);
      for (size_t i = 0; i < op->result_count(); ++i) defined.insert(op->result(i));
      if (op->is(Op::yield) && op.get() != block.operations().back().get())
        report(locate_(*op), "E156", "'yield' is not the last operation of its block");
    }
    if (!block.terminator()) report(where_, "E156", "the block does not end in 'yield'");
  }

  std::vector<Diagnostic> findings;

 private:
  void report(std::string where, std::string_view id, std::string message) {
    findings.push_back(make_error(ErrorKind::invalid, id, std::move(message)).with_where(std::move(where)));
  }

  static bool selects(const Function& function) {
    for (size_t i = 0; i < function.block.argument_count(); ++i) {
      const Value* argument = function.block.argument(i);
      if (argument->name == function.when->input)
        return argument->type.dtype == DType::boolean && argument->type.element_count().is(1);
    }
    return false;
  }

  void operation(Operation& op, int depth) {
    if (depth == 0 && module_ && !is_legal(op.op, module_->stage))
      report(locate_(op), "E157", concat("'", to_string(op.op), "' is not legal in stage ", to_string(module_->stage)));
    if (depth > 0 && op.is(Op::fusion)) report(locate_(op), "E157", "a fusion inside a fusion");

    const std::vector<Type> operand_types = op.operand_types();
    Result<std::vector<Type>> inferred = infer_types(op.op, operand_types, op.attributes);
    if (!inferred) {
      Error error = std::move(inferred).error().within(locate_(op));
      findings.insert(findings.end(), error.diagnostics.begin(), error.diagnostics.end());
    } else if (op.body()) {
      fusion(op, depth);
    } else if (*inferred != op.result_types()) {
      auto list = [](const std::vector<Type>& types) {
        return join(types, ", ", [](const Type& type) { return type.str(); });
      };
      report(locate_(op), "E158", concat("result types of '", to_string(op.op), "' are not what its operands give"));
      findings.back().with_expected(list(*inferred)).with_got(list(op.result_types()));
    }
    for (size_t i = 0; i < op.result_count(); ++i) check_symbols(op.result(i)->type.shape, &op);
    for (const auto& [name, value] : op.attributes.entries()) {
      if (auto* dims = std::get_if<std::vector<Dim>>(&value)) check_symbols(*dims, &op);
      if (auto* dim = std::get_if<Dim>(&value)) check_symbols({*dim}, &op);
    }
    if (op.is(Op::weight)) weight(op);
  }

  void fusion(const Operation& op, int depth) {
    const Block& body = *op.body();
    bool arguments_match = body.argument_count() == op.operand_count();
    for (size_t i = 0; arguments_match && i < op.operand_count(); ++i)
      arguments_match = body.argument(i)->type == op.operand(i)->type;
    if (!arguments_match) report(locate_(op), "E159", "arguments of the fusion's body differ from its operands");
    block(body, depth + 1);
    if (const Operation* yield = body.terminator(); yield && yield->operand_types() != op.result_types())
      report(locate_(op), "E159", "result types of the fusion differ from what its body yields");
  }

  void weight(const Operation& op) {
    if (!module_ || module_->weights->entries().empty()) return;
    const std::string& name = op.attributes.string("name");
    const WeightEntry* entry = module_->weights->find(name);
    Type type = op.result()->type;
    Type stored{entry ? entry->dtype : type.dtype, {}};
    if (entry) stored.shape.assign(entry->shape.begin(), entry->shape.end());
    if (!entry || stored != type) {
      report(locate_(op), "E620", concat("weight '", escape_text(name), "' does not match the weights file"));
      findings.back().with_expected(type.str()).with_got(entry ? stored.str() : "no tensor of that name");
    }
  }

  // Finding the place of an operation may walk the whole text, so it is done for findings only.
  void check_symbols(const Shape& shape, const Operation* op) {
    if (!module_) return;
    std::vector<std::string> names;
    for (const Dim& dim : shape)
      if (!dim.is_constant()) dim.collect_symbols(names);
    for (const std::string& name : names)
      if (!module_->symbols.contains(name))
        report(op ? locate_(*op) : where_, "E154", concat("symbol '", name, "' is not declared"));
  }

  const Module* module_;  // null for a body on its own
  const Locator& locate_;
  std::string where_;
};

Result<void> finish(std::vector<Diagnostic> findings) {
  if (findings.empty()) return Ok{};
  return Error(std::move(findings));
}

}  // namespace

Result<void> verify_located(const Module& module, const Locator& locate) {
  Verifier verifier(&module, locate);
  std::set<std::string_view> names;
  for (const auto& function : module.functions) {
    if (!names.insert(function->name).second)
      verifier.findings.push_back(
          make_error(ErrorKind::invalid, "E154", concat("function '", function->name, "' stands twice")));
    verifier.function(*function);
  }
  return finish(std::move(verifier.findings));
}

Result<void> verify_body_located(const Block& block, const Locator& locate) {
  Verifier verifier(nullptr, locate);
  verifier.block(block, 1);
  return finish(std::move(verifier.findings));
}

Result<void> verify(const Module& module) {
  return verify_located(module, [](const Operation& op) {
    if (!op.origins.empty()) return join(op.origins, ", ");
    std::string text = print(op);
    return text.substr(0, text.find('\n'));
  });
}

}  // namespace rtx
