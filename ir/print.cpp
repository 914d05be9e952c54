#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "base/text.h"
#include "ir/text.h"

namespace rtx {

namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned char>(c));
      out += buffer;
    } else {
      out += c;
    }
  }
  out += '"';
}

// Text that reads back to the same bits of the given type.
void append_element(std::string& out, const Tensor& tensor, int64_t i) {
  if (!is_float(tensor.dtype)) return append(out, tensor.i64(i));
  double value = tensor.f64(i);
  if (std::isnan(value)) {
    // Which NaN matters for byte-equality, so its bits are written.
    uint64_t bits = 0;
    const size_t width = static_cast<size_t>(bit_width(tensor.dtype)) / 8;
    for (size_t b = width; b-- > 0;)
      bits = bits << 8 | static_cast<uint64_t>(tensor.bytes[static_cast<size_t>(i) * width + b]);
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "nan:0x%llx", static_cast<unsigned long long>(bits));
    out += buffer;
  } else if (tensor.dtype == DType::f64) {
    append(out, value);
  } else {
    char buffer[32];
    out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr);
  }
}

struct ValuePrinter {
  std::string& out;
  void operator()(bool value) { out += value ? "true" : "false"; }
  void operator()(int64_t value) { append(out, value); }
  void operator()(double value) { append(out, value); }
  void operator()(const std::string& value) { append_quoted(out, value); }
  void operator()(const std::vector<int64_t>& values) {
    out += concat("[", join(values, ", ", [](int64_t v) { return v; }), "]");
  }
  void operator()(const Dim& value) { out += value.str(); }
  void operator()(const std::vector<Dim>& values) { out += to_string(values); }
  void operator()(DType value) { out += to_string(value); }
  void operator()(const Tensor& value) {
    out +=
        concat("dense<[", join(value.shape, ", ", [](int64_t d) { return d; }), "], ", to_string(value.dtype), ", [");
    for (int64_t i = 0, n = value.element_count(); i < n; ++i) {
      if (i) out += ", ";
      append_element(out, value, i);
    }
    out += "]>";
  }
};

class Printer {
 public:
  explicit Printer(bool with_names) : with_names_(with_names) {}

  std::string out;

  void arguments(const Block& block) {
    out += "(";
    for (size_t i = 0; i < block.argument_count(); ++i) {
      const Value* argument = block.argument(i);
      if (i) out += ", ";
      out += define(argument);
      if (with_names_ && !argument->name.empty()) {
        out += " ";
        append_quoted(out, argument->name);
      }
      out += concat(": ", argument->type.str());
    }
    out += ")";
  }

  void body(const Block& block, int indent) {
    out += " {\n";
    for (const auto& op : block.operations()) {
      out.append(static_cast<size_t>(indent) + 2, ' ');
      operation(*op, indent + 2);
      out += "\n";
    }
    out.append(static_cast<size_t>(indent), ' ');
    out += "}";
  }

  void operation(const Operation& op, int indent) {
    for (size_t i = 0; i < op.result_count(); ++i) {
      if (i) out += ", ";
      out += define(op.result(i));
    }
    if (op.result_count()) out += " = ";
    out += concat(to_string(op.op), "(", join(op.operands(), ", ", [&](const Value* v) { return use(v); }), ")");
    if (!op.attributes.entries().empty()) {
      out += " {";
      bool first = true;
      for (const auto& [name, value] : op.attributes.entries()) {
        if (!first) out += ", ";
        first = false;
        out += concat(name, " = ");
        std::visit(ValuePrinter{out}, value);
      }
      out += "}";
    }
    if (op.body()) {
      out += " ";
      arguments(*op.body());
      body(*op.body(), indent);
    }
    if (op.result_count()) out += concat(" : ", join(op.result_types(), ", ", [](const Type& t) { return t.str(); }));
    if (!with_names_) return;
    strings(" from ", op.origins);
    std::vector<std::string> names;
    bool named = false;
    for (size_t i = 0; i < op.result_count(); ++i) {
      names.push_back(op.result(i)->name);
      named = named || !names.back().empty();
    }
    if (named) strings(" as ", names);
  }

  void strings(std::string_view word, const std::vector<std::string>& list) {
    if (list.empty()) return;
    out += word;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      append_quoted(out, list[i]);
    }
  }

  void number_all(const Block& block) {
    for (size_t i = 0; i < block.argument_count(); ++i) define(block.argument(i));
    for (const auto& op : block.operations()) {
      for (size_t i = 0; i < op->result_count(); ++i) define(op->result(i));
      if (op->body()) number_all(*op->body());
    }
  }

 private:
  std::string define(const Value* value) {
    size_t number = numbers_.emplace(value, numbers_.size()).first->second;
    return concat("%", number);
  }
  std::string use(const Value* value) {
    auto found = numbers_.find(value);
    return found == numbers_.end() ? "%?" : concat("%", found->second);
  }

  bool with_names_;
  std::unordered_map<const Value*, size_t> numbers_;
};

void print_function(Printer& printer, const Function& function) {
  printer.out += concat("func @", function.name);
  printer.arguments(function.block);
  // The names of the outputs stand after the list of operations, where `yield` gives their values.
  printer.body(function.block, 0);
  printer.strings(" outputs ", function.output_names);
  if (function.when) {
    printer.strings(" when ", {function.when->input});
    printer.out += function.when->value ? " true" : " false";
  }
  printer.out += "\n";
}

}  // namespace

std::string print(const Module& module) {
  std::string out = concat("rtxir 1\nstage ", to_string(module.stage), "\n");
  for (const auto& [name, range] : module.symbols) {
    out += concat("symbol ", name, " ", range.min, "..", range.max);
    if (range.opt) out += concat(" opt ", range.opt);
    out += "\n";
  }
  for (const auto& function : module.functions) {
    out += "\n";
    out += print(*function);
  }
  return out;
}

std::string print(const Function& function) {
  Printer printer(true);
  print_function(printer, function);
  return std::move(printer.out);
}

std::string print(const Operation& operation) {
  Printer printer(true);
  if (operation.block()) printer.number_all(*operation.block());
  printer.operation(operation, 0);
  return std::move(printer.out);
}

std::string print_body(const Block& block) {
  Printer printer(false);
  printer.arguments(block);
  printer.body(block, 0);
  printer.out += "\n";
  return std::move(printer.out);
}

}  // namespace rtx
