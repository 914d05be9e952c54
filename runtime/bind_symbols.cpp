#include "runtime/bind_symbols.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/text.h"
#include "runtime/host_tensor.h"

namespace rtx::runtime {

namespace {

using package::Formula;
using package::Manifest;
using package::Program;
using package::TensorSpec;

std::string spec_text(const TensorSpec& spec) {
  return concat(to_string(spec.dtype), "[", join(spec.shape, ", ", [](const Formula& f) { return f.text(); }), "]");
}

std::string input_place(const TensorSpec& spec) { return concat("input '", escape_text(spec.name), "'"); }

bool uses(const package::Kernel& kernel, size_t symbol) {
  if (kernel.launch) {
    const package::Launch& launch = *kernel.launch;
    for (const Formula& size : launch.grid)
      if (size.uses(symbol)) return true;
    for (const Formula& scalar : launch.scalars)
      if (scalar.uses(symbol)) return true;
    for (const Formula* f : {&launch.shared_bytes, &launch.workspace_bytes, &launch.counters})
      if (f->uses(symbol)) return true;
  }
  if (kernel.matmul) {
    const package::MatmulCall& call = *kernel.matmul;
    for (const Formula* f : {&call.batch, &call.m, &call.n, &call.k, &call.lhs_batch_stride, &call.rhs_batch_stride})
      if (f->uses(symbol)) return true;
  }
  return false;
}

bool uses(const Manifest& manifest, const Program& program, size_t symbol) {
  for (const std::vector<TensorSpec>* specs : {&program.inputs, &program.outputs})
    for (const TensorSpec& spec : *specs)
      for (const Formula& size : spec.shape)
        if (size.uses(symbol)) return true;
  for (const Formula& piece : program.arena)
    if (piece.uses(symbol)) return true;
  for (const package::Buffer& buffer : program.buffers)
    if (buffer.bytes.uses(symbol)) return true;
  for (const package::Step& step : program.steps)
    if (uses(manifest.kernels[step.kernel], symbol)) return true;
  return false;
}

// What is known of the symbols so far, and the errors on the way.
class Binding {
 public:
  Binding(const Manifest& manifest, const Program& program, std::span<const TensorType> inputs)
      : manifest_(manifest), program_(program), inputs_(inputs), values_(manifest.symbols.size()) {
    for (const package::Symbol& symbol : manifest.symbols) guess_.push_back(symbol.min);
    sources_.resize(manifest.symbols.size());
  }

  void bind_variant() {
    if (!program_.variant) return;
    for (const auto& dim : program_.variant->dims)
      set(dim.symbol, dim.size, concat("program '", program_.name, "', which is for that size"));
  }

  void bind_given(const SymbolValues& given) {
    for (const auto& [name, value] : given) {
      size_t symbol = 0;
      while (symbol < values_.size() && manifest_.symbols[symbol].name != name) ++symbol;
      if (symbol == values_.size()) {
        errors_.push_back(
            make_error(ErrorKind::usage, "E004", concat("the package has no dim '", escape_text(name), "'"))
                .with_expected(concat("one of: ", join(manifest_.symbol_names(), ", "))));
      } else {
        set(symbol, value, "the dim given by name");
      }
    }
  }

  bool check_types() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorSpec& spec = program_.inputs[i];
      const std::string got = type_text(inputs_[i].dtype, inputs_[i].shape);
      if (inputs_[i].dtype != spec.dtype)
        errors_.push_back(make_error(ErrorKind::invalid, "E373", "wrong element type")
                              .with_where(input_place(spec))
                              .with_expected(spec_text(spec))
                              .with_got(got));
      if (inputs_[i].shape.size() != spec.shape.size())
        errors_.push_back(make_error(ErrorKind::invalid, "E374", "wrong number of axes")
                              .with_where(input_place(spec))
                              .with_expected(spec_text(spec))
                              .with_got(got));
    }
    return errors_.empty();
  }

  void bind_plain_axes() {
    for_each_axis([&](const TensorSpec& spec, size_t axis, int64_t got) {
      for (size_t symbol = 0; symbol < values_.size(); ++symbol)
        if (spec.shape[axis].text() == manifest_.symbols[symbol].name)
          set(symbol, got, concat(input_place(spec), " axis ", axis));
    });
  }

  void solve_expressions() {
    for (bool changed = true; changed;) {
      changed = false;
      for_each_axis([&](const TensorSpec& spec, size_t axis, int64_t got) {
        std::optional<size_t> unknown;
        int unknowns = 0;
        for (size_t symbol = 0; symbol < values_.size(); ++symbol) {
          if (values_[symbol] || !spec.shape[axis].uses(symbol)) continue;
          unknown = symbol;
          ++unknowns;
        }
        if (unknowns != 1) return;
        if (const std::optional<int64_t> value = solve(spec.shape[axis], *unknown, got)) {
          set(*unknown, *value, concat(input_place(spec), " axis ", axis));
          changed = true;
        }
      });
    }
  }

  void check_symbols() {
    for (size_t symbol = 0; symbol < values_.size(); ++symbol) {
      const package::Symbol& s = manifest_.symbols[symbol];
      if (!values_[symbol]) {
        if (uses(manifest_, program_, symbol))
          errors_.push_back(
              make_error(ErrorKind::invalid, "E378", concat("the inputs do not determine dim '", s.name, "'"))
                  .with_help("give its value by name"));
        continue;
      }
      if (*values_[symbol] < s.min || *values_[symbol] > s.max)
        errors_.push_back(make_error(ErrorKind::invalid, "E377", concat("dim '", s.name, "' is outside its range"))
                              .with_where(sources_[symbol])
                              .with_expected(concat(s.name, " from ", s.min, " to ", s.max))
                              .with_got(concat(*values_[symbol]))
                              .with_help("the range was fixed when the model was compiled (--dim)"));
    }
  }

  void check_axes() {
    for_each_axis([&](const TensorSpec& spec, size_t axis, int64_t got) {
      const Formula& formula = spec.shape[axis];
      const Result<int64_t> expected = formula.evaluate(guess_);
      if (expected && *expected == got) return;
      std::string text = formula.text();
      if (expected && !formula.is_constant()) text += concat(" = ", *expected, bound_text(formula));
      errors_.push_back(make_error(ErrorKind::invalid, "E375", concat("wrong size of axis ", axis))
                            .with_where(input_place(spec))
                            .with_expected(std::move(text))
                            .with_got(concat(got)));
    });
  }

  const std::vector<int64_t>& values() const { return guess_; }
  std::vector<Diagnostic>& errors() { return errors_; }

 private:
  template <typename Visit>
  void for_each_axis(Visit visit) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      for (size_t axis = 0; axis < inputs_[i].shape.size(); ++axis)
        visit(program_.inputs[i], axis, inputs_[i].shape[axis]);
  }

  void set(size_t symbol, int64_t value, std::string source) {
    if (!values_[symbol]) {
      values_[symbol] = guess_[symbol] = value;
      sources_[symbol] = std::move(source);
    } else if (*values_[symbol] != value) {
      const std::string& name = manifest_.symbols[symbol].name;
      errors_.push_back(make_error(ErrorKind::invalid, "E376", concat("two values for dim '", name, "'"))
                            .with_where(std::move(source))
                            .with_expected(concat(name, " = ", *values_[symbol], ", from ", sources_[symbol]))
                            .with_got(concat(name, " = ", value)));
    }
  }

  // The value of `symbol` for which the formula is `got`, taking it to be a straight line; check_axes() has the last
  // word.
  std::optional<int64_t> solve(const Formula& formula, size_t symbol, int64_t got) {
    std::vector<int64_t> at = guess_;
    at[symbol] = 0;
    const Result<int64_t> at_zero = formula.evaluate(at);
    at[symbol] = 1;
    const Result<int64_t> at_one = formula.evaluate(at);
    if (!at_zero || !at_one) return std::nullopt;
    int64_t slope = 0, rise = 0;
    if (__builtin_sub_overflow(*at_one, *at_zero, &slope) || __builtin_sub_overflow(got, *at_zero, &rise))
      return std::nullopt;
    if (slope == 0 || rise == std::numeric_limits<int64_t>::min() || rise % slope != 0) return std::nullopt;
    return rise / slope;
  }

  // " (batch = 2, seq = 7)" for the symbols of a formula.
  std::string bound_text(const Formula& formula) const {
    std::string text;
    for (size_t symbol = 0; symbol < values_.size(); ++symbol)
      if (formula.uses(symbol) && values_[symbol])
        text += concat(text.empty() ? " (" : ", ", manifest_.symbols[symbol].name, " = ", *values_[symbol]);
    return text.empty() ? text : text + ")";
  }

  const Manifest& manifest_;
  const Program& program_;
  std::span<const TensorType> inputs_;
  std::vector<std::optional<int64_t>> values_;
  std::vector<int64_t> guess_;  // values_, or the minimum
  std::vector<std::string> sources_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

Result<std::vector<int64_t>> bind_symbols(const Manifest& manifest, const Program& program,
                                          std::span<const TensorType> inputs, const SymbolValues& given) {
  if (inputs.size() != program.inputs.size())
    return make_error(ErrorKind::invalid, "E371", concat("wrong number of inputs for program '", program.name, "'"))
        .with_expected(concat(
            program.inputs.size(), ": ",
            join(program.inputs, ", ", [](const TensorSpec& spec) { return concat(spec.name, " ", spec_text(spec)); })))
        .with_got(concat(inputs.size()));
  Binding binding(manifest, program, inputs);
  binding.bind_variant();
  binding.bind_given(given);
  if (binding.check_types()) {
    binding.bind_plain_axes();
    binding.solve_expressions();
    if (binding.errors().empty()) binding.check_symbols();
    if (binding.errors().empty()) binding.check_axes();
  }
  if (!binding.errors().empty()) return Error(std::move(binding.errors()));
  return binding.values();
}

Result<std::vector<int64_t>> choose_symbols(const Manifest& manifest, const SymbolValues& given) {
  const Program no_inputs;
  Binding binding(manifest, no_inputs, {});
  binding.bind_given(given);
  binding.check_symbols();
  if (!binding.errors().empty()) return Error(std::move(binding.errors()));
  std::vector<int64_t> values = binding.values();
  for (size_t i = 0; i < values.size(); ++i) {
    const package::Symbol& symbol = manifest.symbols[i];
    if (given.contains(symbol.name)) continue;
    values[i] = symbol.opt != 0 ? symbol.opt : std::min(std::max<int64_t>(symbol.min, 1), symbol.max);
  }
  return values;
}

Result<std::vector<int64_t>> evaluate_shape(const TensorSpec& spec, std::span<const int64_t> symbols) {
  std::vector<int64_t> shape;
  for (const Formula& formula : spec.shape) {
    RTX_ASSIGN(const int64_t size, formula.evaluate(symbols));
    if (size < 0)
      return make_error(ErrorKind::limit, "E506", concat("'", escape_text(spec.name), "' has an axis of negative size"))
          .with_got(concat(formula.text(), " = ", size));
    shape.push_back(size);
  }
  return shape;
}

}  // namespace rtx::runtime
