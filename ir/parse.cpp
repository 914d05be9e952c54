#include <charconv>
#include <unordered_map>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx {

namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), file_(file) {
    for (Op op : all_ops()) ops_.emplace(to_string(op), op);
  }

  Result<std::unique_ptr<Module>> module() {
    auto module = std::make_unique<Module>();
    RTX_TRY(expect("rtxir"));
    RTX_ASSIGN(int64_t version, integer());
    if (version != 1) return error("E152", concat("IR version ", version, " is not known")).with_expected("version 1");
    RTX_TRY(expect("stage"));
    RTX_ASSIGN(std::string stage_name, name("a stage"));
    std::optional<Stage> stage = parse_stage(stage_name);
    if (!stage)
      return error("E150", concat("unknown stage '", stage_name, "'"))
          .with_expected("imported, canonical, fused or planned");
    module->stage = *stage;
    while (accept_word("symbol")) RTX_TRY(symbol(*module));
    while (accept_word("func")) RTX_TRY(function(*module));
    if (skip_space(); position_ != text_.size()) return unexpected("'func' or the end of the file");
    RTX_TRY(verify_located(*module, [this](const Operation& op) { return place(locations_.at(&op)); }));
    return module;
  }

  Result<std::unique_ptr<Block>> body() {
    auto block = std::make_unique<Block>();
    RTX_TRY(region(*block, 0));
    if (skip_space(); position_ != text_.size()) return unexpected("the end");
    RTX_TRY(verify_body_located(*block, [this](const Operation& op) { return place(locations_.at(&op)); }));
    return block;
  }

 private:
  // --- tokens ---
  void skip_space() {
    while (position_ < text_.size()) {
      char c = text_[position_];
      if (c == '#') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++position_;
      } else {
        break;
      }
    }
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    size_t end = position_ + word.size();
    if (text_.substr(position_, word.size()) != word || (end < text_.size() && is_name_char(text_[end]))) return false;
    position_ = end;
    return true;
  }
  Result<void> expect(std::string_view token) {
    if (accept(token)) return Ok{};
    return unexpected(concat("'", token, "'"));
  }
  // "file:line:column" of a byte offset.
  std::string place(size_t offset) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < offset && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    return concat(file_, ":", line, ":", column);
  }
  Diagnostic error(std::string_view id, std::string message) const {
    return error_at(position_, id, std::move(message));
  }
  // For what is found only after the text that is wrong was read.
  Diagnostic error_at(size_t offset, std::string_view id, std::string message) const {
    return make_error(ErrorKind::invalid, id, std::move(message)).with_where(place(offset));
  }
  Diagnostic unexpected(std::string_view expected) const {
    std::string_view rest = text_.substr(position_, 24);
    rest = rest.substr(0, rest.find('\n'));
    return error("E150", "the text does not follow the grammar")
        .with_expected(std::string(expected))
        .with_got(rest.empty() ? "the end of the line or file" : concat("'", escape_text(rest), "'"));
  }

  Result<std::string> name(std::string_view what) {
    skip_space();
    size_t start = position_;
    while (position_ < text_.size() && is_name_char(text_[position_])) ++position_;
    if (start == position_) return unexpected(what);
    return std::string(text_.substr(start, position_ - start));
  }
  Result<int64_t> integer() {
    skip_space();
    int64_t value = 0;
    auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (status != std::errc{}) return unexpected("an integer");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  template <typename T>
  Result<T> real() {
    skip_space();
    T value = 0;
    auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (status != std::errc{}) return unexpected("a number");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  Result<std::string> quoted() {
    RTX_TRY(expect("\""));
    std::string out;
    while (position_ < text_.size() && text_[position_] != '"') {
      char c = text_[position_++];
      if (c == '\n') return unexpected("a closing quote on the same line");
      if (c == '\\') {
        char escaped = position_ < text_.size() ? text_[position_++] : '\0';
        if (escaped == 'x') {
          unsigned value = 0;
          const char* begin = text_.data() + position_;
          auto [end, status] = std::from_chars(begin, std::min(begin + 2, text_.data() + text_.size()), value, 16);
          if (status != std::errc{} || end != begin + 2) return unexpected("two hexadecimal digits after \\x");
          position_ += 2;
          c = static_cast<char>(value);
        } else if (escaped == '"' || escaped == '\\') {
          c = escaped;
        } else {
          return unexpected("\\\", \\\\ or \\xHH");
        }
      }
      out += c;
    }
    RTX_TRY(expect("\""));
    return out;
  }
  Result<std::vector<std::string>> quoted_list() {
    std::vector<std::string> list;
    do {
      RTX_ASSIGN(std::string text, quoted());
      list.push_back(std::move(text));
    } while (accept(","));
    return list;
  }

  // --- types and attributes ---
  // A dim expression runs to the next ',' or closing bracket outside parentheses.
  Result<Dim> dim() {
    skip_space();
    size_t start = position_;
    int depth = 0;
    while (position_ < text_.size()) {
      char c = text_[position_];
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (depth < 0 || c == '\n' || (depth == 0 && (c == ',' || c == ']' || c == '}'))) break;
      ++position_;
    }
    Result<Dim> parsed = parse_dim(text_.substr(start, position_ - start));
    if (!parsed) return std::move(parsed).error().within(place(start));
    return parsed;
  }
  template <typename T, typename ParseItem>
  Result<std::vector<T>> bracketed(ParseItem parse_item) {
    RTX_TRY(expect("["));
    std::vector<T> items;
    if (accept("]")) return items;
    do {
      RTX_ASSIGN(T item, parse_item());
      items.push_back(std::move(item));
    } while (accept(","));
    RTX_TRY(expect("]"));
    return items;
  }
  Result<DType> dtype() {
    RTX_ASSIGN(std::string text, name("an element type"));
    std::optional<DType> parsed = parse_dtype(text);
    if (!parsed) return error("E150", concat("unknown element type '", text, "'"));
    return *parsed;
  }
  Result<Type> type() {
    RTX_TRY(expect("tensor<"));
    RTX_ASSIGN(Shape shape, bracketed<Dim>([this] { return dim(); }));
    RTX_TRY(expect(","));
    RTX_ASSIGN(DType element, dtype());
    RTX_TRY(expect(">"));
    return Type{element, std::move(shape)};
  }
  Result<Tensor> dense() {
    RTX_TRY(expect("dense<"));
    RTX_ASSIGN(std::vector<int64_t> shape, bracketed<int64_t>([this] { return integer(); }));
    RTX_TRY(expect(","));
    RTX_ASSIGN(DType element, dtype());
    RTX_TRY(expect(","));
    RTX_TRY(expect("["));
    int64_t count = 1;
    for (int64_t d : shape)
      if (d < 0 || __builtin_mul_overflow(count, d, &count)) return error("E150", "bad shape of a dense constant");
    // Each element takes at least two bytes of text, so what the shape asks for is bounded by what is there.
    if (count > static_cast<int64_t>(text_.size() - position_))
      return error("E150", concat("a dense constant of ", count, " elements has too few values"));
    Tensor tensor(element, std::move(shape));
    for (int64_t i = 0; i < count; ++i) {
      if (i) RTX_TRY(expect(","));
      RTX_TRY(dense_element(tensor, i));
    }
    RTX_TRY(expect("]"));
    RTX_TRY(expect(">"));
    return tensor;
  }
  Result<void> dense_element(Tensor& tensor, int64_t i) {
    if (!is_float(tensor.dtype)) {
      RTX_ASSIGN(int64_t value, integer());
      tensor.set_i64(i, value);
    } else if (accept("nan:0x")) {
      uint64_t bits = 0;
      auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), bits, 16);
      if (status != std::errc{}) return unexpected("hexadecimal bits of a nan");
      position_ = static_cast<size_t>(end - text_.data());
      const size_t width = static_cast<size_t>(bit_width(tensor.dtype)) / 8;
      for (size_t b = 0; b < width; ++b)
        tensor.bytes[static_cast<size_t>(i) * width + b] = static_cast<std::byte>(bits >> (8 * b));
    } else if (tensor.dtype == DType::f64) {
      RTX_ASSIGN(double value, real<double>());
      tensor.set_f64(i, value);
    } else {
      RTX_ASSIGN(float value, real<float>());
      tensor.set_f64(i, value);
    }
    return Ok{};
  }

  Result<AttributeValue> attribute_value(AttrKind kind) {
    switch (kind) {
      case AttrKind::boolean:
        if (accept_word("true")) return AttributeValue(true);
        if (accept_word("false")) return AttributeValue(false);
        return unexpected("true or false");
      case AttrKind::integer:
        return wrap(integer());
      case AttrKind::real:
        return wrap(real<double>());
      case AttrKind::string:
        return wrap(quoted());
      case AttrKind::integers:
        return wrap(bracketed<int64_t>([this] { return integer(); }));
      case AttrKind::dim:
        return wrap(dim());
      case AttrKind::dims:
        return wrap(bracketed<Dim>([this] { return dim(); }));
      case AttrKind::dtype:
        return wrap(dtype());
      case AttrKind::tensor:
        return wrap(dense());
    }
    return unexpected("an attribute value");
  }
  template <typename T>
  static Result<AttributeValue> wrap(Result<T> value) {
    if (!value) return std::move(value).error();
    return AttributeValue(std::move(*value));
  }

  Result<AttributeList> attributes(Op op) {
    AttributeList list;
    if (!accept("{")) return list;
    do {
      RTX_ASSIGN(std::string attribute_name, name("an attribute name"));
      const AttributeSpec* attribute = spec(op).find_attribute(attribute_name);
      if (!attribute) return error("E153", concat("'", to_string(op), "' has no attribute '", attribute_name, "'"));
      if (list.find(attribute_name)) return error("E153", concat("attribute '", attribute_name, "' stands twice"));
      RTX_TRY(expect("="));
      RTX_ASSIGN(AttributeValue value, attribute_value(attribute->kind));
      list.set(attribute_name, std::move(value));
    } while (accept(","));
    RTX_TRY(expect("}"));
    return list;
  }

  // --- structure ---
  Result<void> symbol(Module& module) {
    RTX_ASSIGN(std::string symbol_name, name("a symbol"));
    const size_t start = position_;
    SymbolRange range;
    RTX_ASSIGN(range.min, integer());
    RTX_TRY(expect(".."));
    RTX_ASSIGN(range.max, integer());
    if (accept_word("opt")) {
      RTX_ASSIGN(range.opt, integer());
    }
    if (range.min < 0 || range.max < range.min)
      return error_at(start, "E154", concat("symbol '", symbol_name, "' has an empty or negative range"));
    if (!module.symbols.emplace(symbol_name, range).second)
      return error_at(start, "E154", concat("symbol '", symbol_name, "' stands twice"));
    return Ok{};
  }

  Result<void> function(Module& module) {
    RTX_TRY(expect("@"));
    RTX_ASSIGN(std::string function_name, name("a function name"));
    if (module.find(function_name)) return error("E154", concat("function '", function_name, "' stands twice"));
    Function* created = module.add_function(function_name);
    values_.clear();
    RTX_TRY(region(created->block, 0));
    if (accept_word("outputs")) {
      RTX_ASSIGN(created->output_names, quoted_list());
    }
    if (accept_word("when")) {
      Selector& selector = created->when.emplace();
      RTX_ASSIGN(selector.input, quoted());
      selector.value = accept_word("true");
      if (!selector.value && !accept_word("false")) return error("E150", "expected 'true' or 'false'");
    }
    return Ok{};
  }

  Result<void> region(Block& block, int depth) {
    if (depth > 4) return error("E150", "bodies are nested too deep");
    RTX_TRY(expect("("));
    if (!accept(")")) {
      do {
        RTX_TRY(expect("%"));
        RTX_ASSIGN(std::string id, name("a value"));
        std::string argument_name;
        if (skip_space(); position_ < text_.size() && text_[position_] == '"') {
          RTX_ASSIGN(argument_name, quoted());
        }
        RTX_TRY(expect(":"));
        RTX_ASSIGN(Type argument_type, type());
        RTX_TRY(define(id, block.add_argument(std::move(argument_type), std::move(argument_name)), position_));
      } while (accept(","));
      RTX_TRY(expect(")"));
    }
    RTX_TRY(expect("{"));
    while (!accept("}")) RTX_TRY(operation(block, depth));
    return Ok{};
  }

  Result<void> define(const std::string& id, Value* value, size_t offset) {
    if (!values_.emplace(id, value).second) return error_at(offset, "E202", concat("value %", id, " is defined twice"));
    return Ok{};
  }

  Result<void> operation(Block& block, int depth) {
    skip_space();
    const size_t start = position_;
    std::vector<std::string> result_ids;
    if (accept("%")) {
      do {
        RTX_ASSIGN(std::string id, name("a value"));
        result_ids.push_back(std::move(id));
      } while (accept(",") && accept("%"));
      RTX_TRY(expect("="));
      skip_space();
    }
    RTX_ASSIGN(std::string op_name, name("an operation"));
    auto found = ops_.find(op_name);
    if (found == ops_.end()) return error("E151", concat("unknown operation '", op_name, "'"));
    const Op op = found->second;
    std::vector<Value*> operands;
    RTX_TRY(expect("("));
    if (!accept(")")) {
      do {
        RTX_TRY(expect("%"));
        RTX_ASSIGN(std::string id, name("a value"));
        auto value = values_.find(id);
        if (value == values_.end()) return error("E203", concat("value %", id, " is not defined"));
        operands.push_back(value->second);
      } while (accept(","));
      RTX_TRY(expect(")"));
    }
    RTX_ASSIGN(AttributeList list, attributes(op));
    std::unique_ptr<Block> body;
    if (spec(op).has(trait_has_body)) {
      body = std::make_unique<Block>();
      RTX_TRY(region(*body, depth + 1));
    }
    std::vector<Type> types;
    if (accept(":")) {
      do {
        RTX_ASSIGN(Type result_type, type());
        types.push_back(std::move(result_type));
      } while (accept(","));
    }
    if (types.size() != result_ids.size())
      return error("E150", concat(result_ids.size(), " results but ", types.size(), " result types"));
    Operation* created =
        block.insert(nullptr, op, std::move(operands), std::move(list), std::move(types), std::move(body));
    locations_.emplace(created, start);
    if (accept_word("from")) {
      RTX_ASSIGN(created->origins, quoted_list());
    }
    if (accept_word("as")) {
      RTX_ASSIGN(std::vector<std::string> names, quoted_list());
      if (names.size() != created->result_count()) return error("E150", "not one name for each result");
      for (size_t i = 0; i < names.size(); ++i) created->result(i)->name = names[i];
    }
    for (size_t i = 0; i < result_ids.size(); ++i) RTX_TRY(define(result_ids[i], created->result(i), start));
    return Ok{};
  }

  std::string_view text_;
  std::string file_;
  size_t position_ = 0;
  std::unordered_map<std::string_view, Op> ops_;
  std::unordered_map<std::string, Value*> values_;  // of the current function
  std::unordered_map<const Operation*, size_t> locations_;
};

}  // namespace

Result<std::unique_ptr<Module>> parse_module(std::string_view text, std::string_view file) {
  return Parser(text, file).module();
}

Result<std::unique_ptr<Block>> parse_body(std::string_view text, std::string_view file) {
  return Parser(text, file).body();
}

}  // namespace rtx
