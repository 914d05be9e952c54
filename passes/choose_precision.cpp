#include "passes/choose_precision.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/glob.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace rtx {

namespace {

constexpr int64_t most_summed_in_half = 8;

bool has_f32_result(const Operation& operation) {
  return operation.result_count() == 1 && operation.result()->type.dtype == DType::f32;
}

// The constant or weight that a value is, or is a moved form of; else null.
const Operation* stored_root(const Value* value) {
  while (const Operation* definition = value->def()) {
    if (definition->is(Op::constant) || definition->is(Op::weight)) return definition;
    if (definition->spec().precision != Precision::moves || definition->is(Op::concat)) return nullptr;
    value = definition->operand(0);
  }
  return nullptr;
}

bool shrinks(const Operation& move) { return move.is(Op::slice) || move.spec().family == OpFamily::indexing; }

bool is_residual_sum(const Operation& operation) {
  if (!operation.is(Op::add)) return false;
  bool read_elsewhere = false;
  for (const Value* operand : operation.operands()) {
    if (operand->type != operation.result()->type || stored_root(operand)) return false;
    read_elsewhere = read_elsewhere || !operand->has_one_use();
  }
  return read_elsewhere;
}

bool is_long_sum(const Operation& operation) {
  if (operation.spec().family != OpFamily::reduction || operation.is(Op::reduce_max) || operation.is(Op::reduce_min))
    return false;
  Dim count = 1;
  for (int64_t axis : operation.attributes.integers("axes"))
    count = count * operation.operand(0)->type.shape[static_cast<size_t>(axis)];
  return !count.is_constant() || count.constant() > most_summed_in_half;
}

bool follows(const Operation& operation) {
  return operation.spec().precision == Precision::follows && !is_residual_sum(operation) && !is_long_sum(operation);
}

bool is_product_over_one(const Operation& operation) {
  if (!operation.is(Op::matmul)) return false;
  const Shape& lhs = operation.operand(0)->type.shape;
  return lhs[lhs.size() - (operation.attributes.boolean("transpose_lhs") ? 2 : 1)].is(1);
}

// "node 'layer.0/fc' (MatMul)" gives "layer.0/fc".
std::string_view node_name(std::string_view origin) {
  const size_t first = origin.find('\''), last = origin.rfind('\'');
  return first == last ? std::string_view{} : origin.substr(first + 1, last - first - 1);
}

// What a glob may fit.
std::vector<std::string> names_of(const Operation& operation) {
  std::vector<std::string> names = {std::string(to_string(operation.op))};
  for (const std::string& origin : operation.origins) {
    if (!node_name(origin).empty()) names.emplace_back(node_name(origin));
    names.push_back(origin);
  }
  for (size_t i = 0; i < operation.result_count(); ++i) {
    if (!operation.result(i)->name.empty()) names.push_back(operation.result(i)->name);
  }
  return names;
}

class Chooser {
 public:
  Chooser(const Module& module, const PassContext& context) : module_(module), context_(context) {
    for (const auto& function : module.functions) {
      for (const auto& operation : function->block.operations()) order_.push_back(operation.get());
    }
  }

  Result<PrecisionChoice> run() {
    RTX_TRY(keep_by_name());
    find_angles();
    for (const Operation* operation : order_) {
      if (operation->spec().precision != Precision::narrow || !has_f32_result(*operation)) continue;
      if (angles_.contains(operation->result())) keep(*operation, "its result is an angle: a sine or cosine reads it");
      if (is_product_over_one(*operation)) keep(*operation, "a product over one element");
    }
    for (bool changed = true; changed;) {
      find_wanted();
      find_half();
      changed = false;
      RTX_TRY(check_values(changed));
      check_shared_weights(changed);
      check_attention(changed);
    }
    PrecisionChoice choice;
    for (const Operation* operation : order_) {
      if (auto reason = kept_.find(operation); reason != kept_.end() && has_f32_result(*operation))
        choice.kept.emplace_back(operation, reason->second);
    }
    choice.half = std::move(half_);
    return choice;
  }

 private:
  void keep(const Operation& operation, std::string reason) { kept_.try_emplace(&operation, std::move(reason)); }

  Result<void> keep_by_name() {
    for (const std::string& pattern : context_.keep_f32) {
      bool fits = false;
      std::vector<std::string> all;
      for (const Operation* operation : order_) {
        for (std::string& name : names_of(*operation)) {
          if (glob_fits(pattern, name)) {
            fits = true;
            keep(*operation, concat("kept by the name ", pattern));
          }
          all.push_back(std::move(name));
        }
      }
      if (fits) continue;
      Diagnostic error = make_error(ErrorKind::usage, "E014",
                                    concat("nothing in the model fits '", escape_text(pattern), "' of keep-fp32"))
                             .with_expected("a name, or a glob of names, of operations, ONNX nodes or values");
      if (std::string nearest = nearest_name(pattern, all); !nearest.empty())
        error.with_help(concat("did you mean '", escape_text(nearest), "'?"));
      return error;
    }
    return Ok{};
  }

  // Values that a sine or cosine reads, through moves and arithmetic.
  void find_angles() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Operation& operation = **it;
      const bool turns = operation.is(Op::sin) || operation.is(Op::cos) || operation.is(Op::tan);
      const OpFamily family = operation.spec().family;
      const bool passes = (family == OpFamily::elementwise || family == OpFamily::movement) &&
                          operation.result_count() == 1 && angles_.contains(operation.result());
      if (!turns && !passes) continue;
      for (const Value* operand : operation.operands()) angles_.insert(operand);
    }
  }

  // Whether the user takes this operand in half for the sake of products.
  bool takes(const Use& use, const std::unordered_set<const Value*>& results, bool through_arithmetic) const {
    const Operation& user = *use.user;
    if (kept_.contains(&user) || !is_computed_with(user, use.index)) return false;
    switch (user.spec().precision) {
      case Precision::narrow:
        return true;
      case Precision::follows:
        return through_arithmetic && follows(user) && results.contains(user.result());
      case Precision::moves:
        // A cache is f32 where it is an output too; what is appended to it is still there for the attention.
        return results.contains(user.result()) || (through_arithmetic && user.is(Op::concat) && feeds_product(user));
      case Precision::wide:
        return false;
    }
    return false;
  }

  bool feeds_product(const Operation& move) const {
    const std::vector<Use>& uses = move.result()->uses();
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return takes(use, direct_, false); });
  }

  // wanted_: every use leads into a product; direct_: by moves alone.
  void find_wanted() {
    wanted_.clear();
    direct_.clear();
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (!has_f32_result(**it)) continue;
      const Value* value = (*it)->result();
      const std::vector<Use>& uses = value->uses();
      if (uses.empty()) continue;
      const auto all = [&](const auto& results, bool through_arithmetic) {
        return std::all_of(uses.begin(), uses.end(),
                           [&](const Use& use) { return takes(use, results, through_arithmetic); });
      };
      if (all(direct_, false)) direct_.insert(value);
      if (all(wanted_, true)) wanted_.insert(value);
    }
  }

  bool is_made_in_half(const Value* value) const { return value->def() && half_.contains(value->def()); }

  bool moves_in_half(const Operation& move) const {
    if (tied_.contains(&move)) return true;
    bool some = false, all = true;
    for (size_t i = 0; i < move.operand_count(); ++i) {
      if (!is_computed_with(move, i)) continue;
      const Value* operand = move.operand(i);
      some = some || is_made_in_half(operand);
      const bool number = operand->def() && operand->def()->is(Op::constant);
      all = all && (number || is_made_in_half(operand));
    }
    if (some && (all || wanted_.contains(move.result()))) return true;
    if (move.is(Op::concat) || !direct_.contains(move.result())) return false;
    return stored_root(move.operand(0)) || !shrinks(move);
  }

  // All operands are computed in half or stored, and not all stored; the tables of rope may be anything.
  bool comes_from_half(const Operation& operation) const {
    if (operation.is(Op::rope)) return is_made_in_half(operation.operand(0));
    bool some = false;
    for (size_t i = 0; i < operation.operand_count(); ++i) {
      if (!is_computed_with(operation, i)) continue;
      const bool made = is_made_in_half(operation.operand(i));
      some = some || made;
      if (!made && !stored_root(operation.operand(i))) return false;
    }
    return some;
  }

  bool is_half(const Operation& operation) const {
    if (kept_.contains(&operation) || !has_f32_result(operation)) return false;
    switch (operation.spec().precision) {
      case Precision::narrow:
        return true;
      case Precision::follows:
        return follows(operation) && wanted_.contains(operation.result()) && comes_from_half(operation);
      case Precision::moves:
        return moves_in_half(operation);
      case Precision::wide:
        return false;
    }
    return false;
  }

  void find_half() {
    half_.clear();
    for (const Operation* operation : order_) {
      if (is_half(*operation)) half_.insert(operation);
    }
  }

  // Whether a finite number becomes infinite; of a lone number also whether it becomes zero.
  bool is_lost(double x, bool alone) const {
    std::byte rounded[2];
    store_f64(context_.half, rounded, 0, x);
    const double y = load_f64(context_.half, rounded, 0);
    return std::isfinite(x) && (!std::isfinite(y) || (alone && x != 0 && y == 0));
  }

  Result<bool> is_lost(const Operation& stored) {
    if (stored.is(Op::constant)) {
      const Tensor& tensor = stored.attributes.tensor("value");
      const int64_t count = tensor.element_count();
      for (int64_t i = 0; i < count; ++i) {
        if (is_lost(tensor.f64(i), count == 1)) return true;
      }
      return false;
    }
    const std::string& name = stored.attributes.string("name");
    if (auto known = lost_weights_.find(name); known != lost_weights_.end()) return known->second;
    RTX_ASSIGN(const bool lost, has_lost_numbers(name));
    lost_weights_.emplace(name, lost);
    return lost;
  }

  Result<bool> has_lost_numbers(const std::string& name) {
    const WeightEntry* entry = module_.weights->find(name);
    if (!entry || entry->dtype != DType::f32) return false;
    std::vector<float> piece(size_t{1} << 18);
    for (int64_t done = 0, count = entry->bytes / 4; done < count;) {
      const int64_t now = std::min<int64_t>(count - done, static_cast<int64_t>(piece.size()));
      const std::span<float> numbers(piece.data(), static_cast<size_t>(now));
      RTX_TRY(module_.weights->read(name, done * 4, std::as_writable_bytes(numbers)));
      float largest = 0;
      for (float x : numbers) largest = std::isfinite(x) && std::fabs(x) > largest ? std::fabs(x) : largest;
      if (is_lost(largest, false)) return true;
      done += now;
    }
    return false;
  }

  Result<void> check_values(bool& changed) {
    for (const Operation* operation : order_) {
      if (!half_.contains(operation)) continue;
      for (size_t i = 0; i < operation->operand_count(); ++i) {
        const Operation* stored = is_computed_with(*operation, i) ? stored_root(operation->operand(i)) : nullptr;
        if (!stored) continue;
        RTX_ASSIGN(const bool lost, is_lost(*stored));
        if (!lost) continue;
        keep(*operation, concat("a number in operand '", operation->spec().operand(i).name, "' has no place in ",
                                to_string(context_.half)));
        changed = true;
        break;
      }
    }
    return Ok{};
  }

  // Casts around an attention between operations in f32 (integer products, for one) would be kernels of their own.
  void check_attention(bool& changed) {
    for (const Operation* operation : order_) {
      if (!operation->is(Op::attention) || !half_.contains(operation)) continue;
      bool all_f32 = true;
      for (size_t i = 0; i < 3; ++i) all_f32 = all_f32 && is_computed_in_f32(operation->operand(i));
      if (!all_f32) continue;
      keep(*operation, "q, k and v are all computed in f32");
      changed = true;
    }
  }

  // By an operation that is not a move.
  bool is_computed_in_f32(const Value* value) const {
    for (const Operation* definition = value->def(); definition; definition = value->def()) {
      const bool stored = definition->is(Op::constant) || definition->is(Op::weight);
      const bool source = definition->spec().precision != Precision::moves;
      if (source) return !stored && definition->result()->type.dtype == DType::f32 && !half_.contains(definition);
      value = definition->operand(0);
    }
    return false;
  }

  // A weight stands in the package once: what moves parts of it follows the products, and products follow all others.
  void check_shared_weights(bool& changed) {
    struct Users {
      std::vector<const Operation*> half, wide;
    };
    std::map<std::string_view, Users> users_of;
    for (const Operation* operation : order_) {
      for (size_t i = 0; i < operation->operand_count(); ++i) {
        const Operation* weight = operation->operand(i)->def();
        if (!weight || !weight->is(Op::weight) || weight->result()->type.dtype != DType::f32) continue;
        Users& users = users_of[weight->attributes.string("name")];
        (half_.contains(operation) && is_computed_with(*operation, i) ? users.half : users.wide).push_back(operation);
      }
    }
    for (const auto& [name, users] : users_of) {
      if (users.half.empty() || users.wide.empty()) continue;
      const WeightEntry* entry = module_.weights->find(name);
      const bool small = entry && entry->bytes <= context_.small_bytes;
      const auto can_follow = [&](const Operation* user) {
        return user->spec().precision == Precision::moves && !user->is(Op::concat) && !kept_.contains(user);
      };
      const auto first = std::find_if_not(users.wide.begin(), users.wide.end(), can_follow);
      if (first == users.wide.end()) {
        for (const Operation* user : users.wide) changed = tied_.insert(user).second || changed;
      } else if (!small) {
        for (const Operation* user : users.half) {
          keep(*user, concat("its weight is read in f32 by ", to_string((*first)->op), " too"));
        }
        changed = true;
      }
    }
  }

  const Module& module_;
  const PassContext& context_;
  std::vector<const Operation*> order_;  // of all functions
  std::unordered_map<const Operation*, std::string> kept_;
  std::unordered_set<const Operation*> tied_, half_;
  std::unordered_set<const Value*> angles_, wanted_, direct_;
  std::map<std::string, bool, std::less<>> lost_weights_;
};

}  // namespace

bool is_computed_with(const Operation& operation, size_t index) {
  return operation.operand(index)->type.dtype == DType::f32 && !(operation.is(Op::attention) && index >= 3);
}

Result<PrecisionChoice> choose_precision(const Module& module, const PassContext& context) {
  return Chooser(module, context).run();
}

}  // namespace rtx
