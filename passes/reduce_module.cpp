#include "passes/reduce_module.h"

#include <algorithm>

#include "base/text.h"
#include "ir/verify.h"
#include "passes/eliminate_dead_values.h"
#include "passes/shrink_dims.h"

namespace rtx {

namespace {

std::unique_ptr<Module> copy_of(const Module& module) {
  std::unique_ptr<Module> copy = module.clone();
  copy->weights = std::make_shared<WeightStore>(*module.weights);  // passes add to it
  return copy;
}

Failure failure_of(const Error& error) {
  const Diagnostic& first = error.first();
  return {first.where.starts_with("after pass") ? concat(first.id, " ", first.where.substr(0, first.where.find(':')))
                                                : first.id,
          to_string(first)};
}

std::string kind_of(const Difference& difference) {
  switch (difference.kind) {
    case Difference::Kind::interface:
      return "functions or outputs are gone";
    case Difference::Kind::not_evaluated:
      return {};
    case Difference::Kind::after_fails:
      return "evaluation fails after the passes";
    case Difference::Kind::output:
      return "outputs differ";
  }
  return {};
}

// A name that no input has.
std::string new_input_name(const Block& block) {
  for (size_t i = block.argument_count();; ++i) {
    std::string name = concat("in", i);
    bool taken = false;
    for (size_t k = 0; k < block.argument_count(); ++k) taken = taken || block.argument(k)->name == name;
    if (!taken) return name;
  }
}

class Reducer {
 public:
  Reducer(const Module& module, const FailureCheck& check, const std::function<void(const ReduceStep&)>& on_step)
      : best_(copy_of(module)), check_(check), on_step_(on_step) {}

  Result<std::unique_ptr<Module>> run() {
    RTX_ASSIGN(const std::optional<Failure> failure, check_(*best_));
    if (!failure) {
      return make_error(ErrorKind::usage, "E016", "the module does not fail, so there is nothing to reduce")
          .with_help("give the passes and the check with which it fails");
    }
    kind_ = failure->kind;
    using Attempt = Result<bool> (Reducer::*)();
    for (bool again = true; again;) {
      again = false;
      for (Attempt attempt :
           {&Reducer::drop_functions, &Reducer::drop_outputs, &Reducer::drop_dead_values, &Reducer::replace_operations,
            &Reducer::drop_inputs, &Reducer::bind_symbols, &Reducer::shrink_sizes}) {
        RTX_ASSIGN(const bool helped, (this->*attempt)());
        again = again || helped;
      }
    }
    return std::move(best_);
  }

 private:
  // Keeps `module` if it is valid and fails as the first one did.
  Result<bool> accept(std::unique_ptr<Module> module, const std::string& what) {
    if (!module || !verify(*module)) return false;
    RTX_ASSIGN(const std::optional<Failure> failure, check_(*module));
    if (!failure || failure->kind != kind_) return false;
    best_ = std::move(module);
    size_t operations = 0;
    for (const auto& function : best_->functions) operations += function->block.size() - 1;
    if (on_step_) on_step_({what, operations});
    return true;
  }

  Result<bool> drop_functions() {
    bool helped = false;
    for (size_t i = best_->functions.size(); i-- > 0 && best_->functions.size() > 1;) {
      std::unique_ptr<Module> trial = copy_of(*best_);
      trial->functions.erase(trial->functions.begin() + static_cast<int64_t>(i));
      for (const auto& function : trial->functions) function->when.reset();
      RTX_ASSIGN(const bool kept, accept(std::move(trial), "dropped a function"));
      helped = helped || kept;
    }
    return helped;
  }

  // Runs of outputs, half as long each time.
  Result<bool> drop_outputs() {
    bool helped = false;
    for (size_t f = 0; f < best_->functions.size(); ++f) {
      for (size_t length = best_->functions[f]->output_names.size(); length > 0; length /= 2) {
        for (size_t at = 0; at < best_->functions[f]->output_names.size();) {
          RTX_ASSIGN(const bool kept, accept(without_outputs(f, at, length), "dropped outputs"));
          helped = helped || kept;
          if (!kept) at += length;
        }
      }
    }
    return helped;
  }

  std::unique_ptr<Module> without_outputs(size_t f, size_t at, size_t length) const {
    std::unique_ptr<Module> trial = copy_of(*best_);
    Function& function = *trial->functions[f];
    Operation* yield = function.block.terminator();
    std::vector<Value*> kept;
    std::vector<std::string> names;
    for (size_t i = 0; i < yield->operand_count(); ++i) {
      if (i >= at && i < at + length) continue;
      kept.push_back(yield->operand(i));
      names.push_back(function.output_names[i]);
    }
    if (kept.empty()) return nullptr;
    function.block.erase(yield);
    function.block.insert(nullptr, Op::yield, std::move(kept), {}, {});
    function.output_names = std::move(names);
    return trial;
  }

  Result<bool> drop_dead_values() {
    std::unique_ptr<Module> trial = copy_of(*best_);
    PassContext context;
    RTX_ASSIGN(const bool changed, eliminate_dead_values(*trial, context));
    if (!changed) return false;
    return accept(std::move(trial), "dropped operations without uses");
  }

  // Runs of operations, half as long each time, from the end; each is gone or replaced, by what helps first.
  Result<bool> replace_operations() {
    bool helped = false;
    for (size_t f = 0; f < best_->functions.size(); ++f) {
      size_t length = best_->functions[f]->block.size();
      for (; length > 0; length /= 2) {
        for (size_t end = best_->functions[f]->block.size() - 1; end > 0;) {
          const size_t first = end > length ? end - length : 0;
          RTX_ASSIGN(const bool kept, replace_run(f, first, end));
          helped = helped || kept;
          end = std::min(first, best_->functions[f]->block.size() - 1);
        }
      }
    }
    return helped;
  }

  enum class By : uint8_t { operand, constant, input };

  Result<bool> replace_run(size_t f, size_t first, size_t end) {
    for (By by : {By::operand, By::constant, By::input}) {
      // Long runs only by inputs: of the other two, each choice is a question of its own.
      if (by != By::input && end - first > 1) continue;
      size_t replaced = 0;
      std::unique_ptr<Module> trial = with_replaced(f, first, end, by, replaced);
      if (replaced == 0) continue;
      constexpr std::string_view names[] = {"an operand", "a constant", "inputs"};
      RTX_ASSIGN(const bool kept, accept(std::move(trial), concat("replaced ", replaced, " operations by ",
                                                                  names[static_cast<size_t>(by)])));
      if (kept) return true;
    }
    return false;
  }

  std::unique_ptr<Module> with_replaced(size_t f, size_t first, size_t end, By by, size_t& replaced) const {
    std::unique_ptr<Module> trial = copy_of(*best_);
    Block& block = trial->functions[f]->block;
    std::vector<Operation*> run;
    size_t place = 0;
    for (const auto& operation : block.operations()) {
      if (place >= first && place < end && !operation->is(Op::yield)) run.push_back(operation.get());
      ++place;
    }
    // Other operations without uses stay: they may be what fails.
    for (auto it = run.rbegin(); it != run.rend(); ++it) {
      if (!replace(block, **it, by)) continue;
      block.erase(*it);
      ++replaced;
    }
    return trial;
  }

  // Whether the operation has no uses now.
  static bool replace(Block& block, Operation& operation, By by) {
    for (size_t i = 0; i < operation.result_count(); ++i) {
      Value* result = operation.result(i);
      if (result->uses().empty()) continue;
      Value* other = nullptr;
      if (by == By::input) {
        other = block.add_argument(result->type, new_input_name(block));
      } else if (by == By::operand) {
        const auto found = std::find_if(operation.operands().begin(), operation.operands().end(),
                                        [&](const Value* operand) { return operand->type == result->type; });
        if (found != operation.operands().end()) other = *found;
      } else if (!operation.is(Op::constant)) {
        other = small_constant(block, operation, result->type);
      }
      if (!other) return false;
      result->replace_all_uses_with(other);
    }
    return true;
  }

  // Ones, where the type is static and small.
  static Value* small_constant(Block& block, Operation& before, const Type& type) {
    constexpr int64_t most_elements = 16;
    if (!type.is_static()) return nullptr;
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Dim& dim : type.shape) {
      shape.push_back(dim.constant());
      if (__builtin_mul_overflow(count, dim.constant(), &count)) return nullptr;
    }
    if (count < 0 || count > most_elements) return nullptr;
    Tensor ones(type.dtype, std::move(shape));
    for (int64_t i = 0; i < count; ++i) is_float(type.dtype) ? ones.set_f64(i, 1) : ones.set_i64(i, 1);
    return block.insert(&before, Op::constant, {}, {{"value", std::move(ones)}}, {type})->result();
  }

  Result<bool> drop_inputs() {
    bool helped = false;
    for (size_t f = 0; f < best_->functions.size(); ++f) {
      for (size_t i = best_->functions[f]->block.argument_count(); i-- > 0;) {
        if (!best_->functions[f]->block.argument(i)->uses().empty()) continue;
        std::unique_ptr<Module> trial = copy_of(*best_);
        trial->functions[f]->block.erase_argument(i);
        RTX_ASSIGN(const bool kept, accept(std::move(trial), "dropped an input"));
        helped = helped || kept;
      }
    }
    return helped;
  }

  // The least size first.
  Result<bool> bind_symbols() {
    bool helped = false;
    std::vector<std::string> names;
    for (const auto& [name, range] : best_->symbols) names.push_back(name);
    for (const std::string& name : names) {
      const auto range = best_->symbols.at(name);
      for (int64_t size = std::max<int64_t>(range.min, 1); size <= std::min(range.max, range.min + 3); ++size) {
        std::unique_ptr<Module> trial = copy_of(*best_);
        trial->substitute(name, Dim(size));
        RTX_ASSIGN(const bool kept, accept(std::move(trial), concat("bound ", name, " to ", size)));
        helped = helped || kept;
        if (kept) break;
      }
    }
    return helped;
  }

  // The largest size first; of each the least that still fails.
  Result<bool> shrink_sizes() {
    bool helped = false;
    std::vector<int64_t> sizes = static_sizes(*best_);
    for (auto from = sizes.rbegin(); from != sizes.rend(); ++from) {
      for (int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, *from / 4, *from / 2}) {
        if (to < 1 || to >= *from) continue;
        RTX_ASSIGN(const bool kept,
                   accept(with_static_size(*best_, *from, to), concat("made sizes of ", *from, " ", to)));
        helped = helped || kept;
        if (kept) break;
      }
    }
    return helped;
  }

  std::unique_ptr<Module> best_;
  const FailureCheck& check_;
  const std::function<void(const ReduceStep&)>& on_step_;
  std::string kind_;
};

}  // namespace

FailureCheck failure_of_passes(PassCheck check) {
  return [check = std::move(check)](const Module& module) -> Result<std::optional<Failure>> {
    const std::unique_ptr<Module> changed = copy_of(module);
    if (Result<void> ran = check.run(*changed); !ran) {
      if (ran.error().first().kind == ErrorKind::usage) return std::move(ran).error();
      return std::optional(failure_of(ran.error()));
    }
    if (Result<void> verified = verify(*changed); !verified) {
      Failure failure = failure_of(verified.error());
      failure.kind += " of the verifier";
      return std::optional(std::move(failure));
    }
    if (!check.seed) return std::optional<Failure>();
    const std::optional<Difference> difference =
        difference_of(module, *changed, *check.seed, check.tolerance, check.rounds);
    if (!difference || difference->kind == Difference::Kind::not_evaluated) return std::optional<Failure>();
    return std::optional(Failure{kind_of(*difference), difference->text});
  };
}

Result<std::unique_ptr<Module>> reduce_module(const Module& module, const FailureCheck& check,
                                              const std::function<void(const ReduceStep&)>& on_step) {
  return Reducer(module, check, on_step).run();
}

}  // namespace rtx
