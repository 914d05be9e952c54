#include "codegen/merge_fusions.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "codegen/joined_fusion.h"
#include "codegen/merge_casts.h"
#include "codegen/merge_rules.h"
#include "codegen/plan_kernel.h"
#include "codegen/product.h"

namespace rtx::codegen {
namespace {

// Operations between two fusions that only share an operand; further apart, results would lie in memory for long.
constexpr size_t most_distance = 16;

class Merger {
 public:
  Merger(Block& block, const PlanContext& context) : block_(block), context_(context) {
    size_t number = 0;
    for (const auto& operation : block.operations()) place_[operation.get()] = number++;
  }

  bool run() {
    bool changed = sweep(&Merger::take_addition);
    changed = merge_rows_and_pointwise(&Merger::move_into_reader) || changed;
    changed = sweep(&Merger::take_product) || changed;
    changed = sweep(&Merger::take_second_result) || changed;
    changed = merge_rows_and_pointwise(&Merger::move_into_readers) || changed;
    changed = sweep(&Merger::join_neighbour) || changed;
    return changed;
  }

  void explain(DecisionLog& log) {
    for (Operation* operation = block_.operations().front().get(); operation; operation = block_.next(operation)) {
      if (!operation->is(Op::fusion)) continue;
      for (size_t i = 0; i < operation->operand_count(); ++i) {
        if (!source_of(operation->operand(i)).fusion) continue;
        Verdict why = why_apart(operation, i);
        if (why) why = may_not("what stands around them was merged first");
        log[operation].push_back({"merge", static_cast<int>(i), false, std::move(why.reason), std::move(why.launches)});
      }
    }
  }

 private:
  bool merge_rows_and_pointwise(Operation* (Merger::*move)(Operation*)) {
    bool changed = false;
    for (bool again = true; again; changed = changed || again) {
      again = sweep(move);
      again = sweep(&Merger::take_epilogue) || again;
    }
    return changed;
  }

  // Calls `rule` for every fusion in order. A rule returns the operation to go on with, or null if it did nothing.
  bool sweep(Operation* (Merger::*rule)(Operation*)) {
    bool changed = false;
    for (Operation* operation = block_.operations().front().get(); operation;) {
      Operation* made = operation->is(Op::fusion) ? (this->*rule)(operation) : nullptr;
      changed = changed || made;
      operation = made ? made : block_.next(operation);
    }
    return changed;
  }

  // Puts the results of `joined` in the place of those of `old`, which it computes first, and erases `old`.
  Operation* replace(Operation* old, Operation* joined) {
    for (size_t i = 0; i < old->result_count(); ++i) {
      joined->result(i)->name = old->result(i)->name;
      old->result(i)->replace_all_uses_with(joined->result(i));
    }
    place_[joined] = place_.at(old);
    erase(old);
    return joined;
  }

  void erase(Operation* operation) {
    place_.erase(operation);
    block_.erase(operation);
  }

  void erase_unused(Source source) {
    if (source.reshape && source.reshape->unused()) erase(source.reshape);
    if (source.fusion->unused()) erase(source.fusion);
  }

  // As move_into_readers, where nothing is read again for it: there is one reader, or there are no operands.
  Operation* move_into_reader(Operation* producer) {
    if (producer->operand_count() > 0 && !(producer->result_count() == 1 && producer->result()->has_one_use()))
      return nullptr;
    return move_into_readers(producer);
  }

  // pointwise -> pointwise or row.
  Operation* move_into_readers(Operation* producer) {
    if (!is_kind(producer, "pointwise") || producer->result_count() != 1) return nullptr;
    const std::optional<std::vector<Reader>> readers = readers_of(producer->result());
    if (!readers || readers->empty() || !can_move_into(*producer, *readers, context_.symbols)) return nullptr;
    Operation* next = block_.next(producer);
    while (!producer->unused()) {
      const Reader reader = readers_of(producer->result())->front();
      JoinedFusion joined(block_, reader.fusion, reader.fusion->attributes);
      Value* moved = joined.reshaped(reader.reshape, joined.take(*producer)[0]);
      Operation* made = joined.finish(joined.take(*reader.fusion, reader.operand, moved));
      if (next == reader.fusion) next = made;
      replace(reader.fusion, made);
      if (reader.reshape && reader.reshape->unused()) {
        if (next == reader.reshape) next = block_.next(next);
        erase(reader.reshape);
      }
    }
    erase(producer);
    return next;
  }

  // row -> elementwise, where the row is stored.
  Operation* take_epilogue(Operation* row) {
    if (!is_kind(row, "row") || row->result_count() != 1 || !row->result()->has_one_use()) return nullptr;
    const Use use = row->result()->uses()[0];
    if (!use.user->is(Op::fusion) || !can_follow_row(*row, *use.user, use.index, context_.symbols)) return nullptr;
    JoinedFusion joined(block_, use.user, row->attributes);
    Value* value = joined.take(*row)[0];
    Operation* made = joined.finish(joined.take(*use.user, use.index, value));
    Operation* next = block_.next(row);
    if (next == use.user) next = made;
    replace(use.user, made);
    erase(row);
    return next;
  }

  // product -> one addition of what lies in memory anyway: a bias, a residual.
  Operation* take_addition(Operation* consumer) {
    const Block& body = *consumer->body();
    if (!is_kind(consumer, "pointwise") || body.size() != 2 || !body.operations().front()->is(Op::add)) return nullptr;
    for (const Value* operand : consumer->operands()) {
      const Operation* made_by = source_of(operand).fusion;
      if (is_kind(made_by, "pointwise") && operand->has_one_use()) return nullptr;
    }
    return take_product(consumer);
  }

  // product -> elementwise on its elements, maybe behind a reshape.
  Operation* take_product(Operation* consumer) {
    if (!is_kind(consumer, "pointwise")) return nullptr;
    for (size_t i = 0; i < consumer->operand_count(); ++i) {
      const Source source = source_of(consumer->operand(i));
      if (!is_kind(source.fusion, "contract")) continue;
      Operation* made = nullptr;
      if (!joins_product(consumer, i, source, &made)) continue;
      replace(consumer, made);
      erase_unused(source);
      return made;
    }
    return nullptr;
  }

  // Whether `consumer` becomes the epilogue of the product behind its operand `index`. If so `made` is the fusion that
  // does both; nothing uses it yet.
  Verdict joins_product(Operation* consumer, size_t index, const Source& product, Operation** made) {
    if (product.fusion->result_count() != 1) return may_not("the product has other results");
    if (!product.fusion->result()->has_one_use() || !consumer->operand(index)->has_one_use())
      return may_not("the product is read elsewhere too");
    JoinedFusion joined(block_, consumer, product.fusion->attributes);
    Value* value = joined.reshaped(product.reshape, joined.take(*product.fusion)[0]);
    Operation* both = joined.finish(joined.take(*consumer, index, value));
    slice_before_elementwise(*both->body());
    const Result<KernelPlan> plan = plan_kernel("contract", *both->body(), context_);
    Verdict verdict = plan ? is_faster(*plan, *consumer) : may_not(plan.error().first().message);
    if (verdict) {
      *made = both;
    } else {
      block_.erase(both);
    }
    return verdict;
  }

  // Whether one kernel is estimated to be faster than a library call and `epilogue`, which a row kernel may do as well.
  Verdict is_faster(const KernelPlan& plan, const Operation& epilogue) const {
    if (!plan.product_cost) return may();
    const ProductCost* cost = &*plan.product_cost;
    const bool in_next = second_result_reader(epilogue).has_value();
    if (cost->own_ns <= (in_next ? cost->library_in_next_ns : cost->library_ns)) return may();
    Verdict slower = may_not(
        concat("estimated slower than cublaslt and ", in_next ? "a norm that does the rest" : "a kernel for the rest"));
    slower.launches = {{plan.unit, plan.percent, plan.flops, plan.bytes}};
    return slower;
  }

  // Why the fusion behind operand `index` is still a kernel of its own.
  Verdict why_apart(Operation* consumer, size_t index) {
    const Source source = source_of(consumer->operand(index));
    const std::string& kind = consumer->attributes.string("kind");
    if (is_kind(source.fusion, "pointwise")) {
      if (kind != "pointwise" && kind != "row")
        return may_not(concat("a kernel of kind ", kind, " reads its elements more than once"));
      const std::optional<std::vector<Reader>> readers = readers_of(source.fusion->result());
      if (!readers) return may_not("it is an output of the model");
      return can_move_into(*source.fusion, *readers, context_.symbols);
    }
    if (is_kind(source.fusion, "row") && kind == "pointwise" && !source.reshape)
      return can_follow_row(*source.fusion, *consumer, index, context_.symbols);
    if (is_kind(source.fusion, "contract") && kind == "pointwise") {
      Operation* made = nullptr;
      Verdict verdict = joins_product(consumer, index, source, &made);
      if (made) block_.erase(made);
      return verdict;
    }
    const std::string& made_by = source.fusion->attributes.string("kind");
    if (made_by == "contract")
      return may_not("blocks of a product make parts of rows, and only elementwise work follows them");
    return may_not(concat("a kernel of kind ", made_by, " makes it, not elementwise work"));
  }

  // The row fusion that would take `producer` in and store its result for the other readers.
  std::optional<Reader> second_result_reader(const Operation& producer) const {
    if (!is_kind(&producer, "pointwise") || producer.result_count() != 1) return std::nullopt;
    for (const Use& use : producer.result()->uses()) {
      if (!is_kind(use.user, "row") || !can_be_second_result(*use.user, use.index, context_.symbols)) continue;
      if (readers_follow(*producer.result(), *use.user, use.user)) return Reader{use.user, use.index, nullptr};
    }
    return std::nullopt;
  }

  // Whether everything that reads `value`, but for `except`, stands after `fusion`; a reshape can be moved there.
  bool readers_follow(const Value& value, const Operation& fusion, const Operation* except) const {
    for (const Use& use : value.uses()) {
      if (use.user == except || place_.at(use.user) > place_.at(&fusion)) continue;
      if (!use.user->is(Op::reshape) || !readers_follow(*use.user->result(), fusion, nullptr)) return false;
    }
    return true;
  }

  // elementwise -> row and other readers: a second result of the row kernel.
  Operation* take_second_result(Operation* producer) {
    const std::optional<Reader> reader = second_result_reader(*producer);
    if (!reader) return nullptr;
    Operation* row = reader->fusion;
    JoinedFusion joined(block_, row, row->attributes);
    Value* value = joined.take(*producer)[0];
    std::vector<Value*> results = joined.take(*row, reader->operand, value);
    const size_t second = results.size();
    results.push_back(value);
    Operation* made = joined.finish(results);
    Operation* next = block_.next(producer);
    if (next == row) next = made;
    replace(row, made);
    made->result(second)->name = producer->result()->name;
    producer->result()->replace_all_uses_with(made->result(second));
    for (const Use& use : made->result(second)->uses()) move_after(use.user, made);
    erase(producer);
    return next;
  }

  // Moves a reshape that stands before `fusion`, whose result it reads, behind it, and the reshapes that read it.
  void move_after(Operation* reshape, Operation* fusion) {
    if (place_.at(reshape) > place_.at(fusion)) return;
    block_.move_before(reshape, block_.next(fusion));
    place_[reshape] = place_.at(fusion);
    for (const Use& use : reshape->result()->uses()) move_after(use.user, reshape);
  }

  // Later fusions that read what this one reads, not far behind it, or whose results are read together with its own.
  std::vector<Operation*> neighbours_of(const Operation& fusion) const {
    std::vector<Operation*> found, readers;
    for (const Value* operand : fusion.operands()) {
      while (operand->def() && operand->def()->is(Op::reshape)) operand = operand->def()->operand(0);
      add_readers(*operand, found);
    }
    std::erase_if(found, [&](const Operation* other) { return place_.at(other) > place_.at(&fusion) + most_distance; });
    for (size_t i = 0; i < fusion.result_count(); ++i) add_readers(*fusion.result(i), readers);
    for (const Operation* reader : readers) {
      for (const Value* operand : reader->operands()) {
        if (const Source source = source_of(operand); source.fusion) found.push_back(source.fusion);
      }
    }
    std::erase_if(found, [&](const Operation* other) { return place_.at(other) <= place_.at(&fusion); });
    std::sort(found.begin(), found.end(), [&](auto* a, auto* b) { return place_.at(a) < place_.at(b); });
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  static void add_readers(const Value& value, std::vector<Operation*>& readers) {
    for (const Use& use : value.uses()) {
      if (use.user->is(Op::reshape)) add_readers(*use.user->result(), readers);
      if (use.user->is(Op::fusion)) readers.push_back(use.user);
    }
  }

  // Kernels that do not depend on each other: `first` and a later one, at the place of either.
  Operation* join_neighbour(Operation* first) {
    if (!is_kind(first, "pointwise") && !is_kind(first, "row")) return nullptr;
    for (Operation* second : neighbours_of(*first)) {
      if (!can_be_neighbours(*first, *second, context_.symbols)) continue;
      const bool early = std::all_of(second->operands().begin(), second->operands().end(),
                                     [&](const Value* operand) { return stands_before(*operand, *first); });
      const bool late = !early && all_readers_follow(*first, *second);
      if (!early && !late) continue;
      Operation* place = early ? first : second;
      if (early) {
        for (Value* operand : second->operands()) hoist(operand, first);
      }
      JoinedFusion joined(block_, place, first->attributes);
      std::vector<Value*> results = joined.take(*first);
      for (Value* result : joined.take(*second)) results.push_back(result);
      const size_t count = first->result_count();
      Operation* made = joined.finish(results);
      for (size_t i = 0; i < results.size(); ++i) {
        Value* old = i < count ? first->result(i) : second->result(i - count);
        made->result(i)->name = old->name;
        old->replace_all_uses_with(made->result(i));
      }
      place_[made] = place_.at(place);
      for (size_t i = 0; i < made->result_count(); ++i) {
        for (const Use& use : made->result(i)->uses()) {
          if (use.user->is(Op::reshape)) move_after(use.user, made);
        }
      }
      Operation* next = block_.next(first);
      if (next == second) next = block_.next(second);
      erase(first);
      erase(second);
      return early ? made : next;
    }
    return nullptr;
  }

  bool all_readers_follow(const Operation& first, const Operation& second) const {
    for (size_t i = 0; i < first.result_count(); ++i) {
      if (!readers_follow(*first.result(i), second, nullptr)) return false;
    }
    return true;
  }

  // Whether `value` is there before `fusion`, or is a reshape of such a value that can be moved there.
  bool stands_before(const Value& value, const Operation& fusion) const {
    if (!value.def() || place_.at(value.def()) < place_.at(&fusion)) return true;
    return value.def()->is(Op::reshape) && stands_before(*value.def()->operand(0), fusion);
  }

  void hoist(Value* value, Operation* fusion) {
    Operation* def = value->def();
    if (!def || place_.at(def) < place_.at(fusion)) return;
    hoist(def->operand(0), fusion);
    block_.move_before(def, fusion);
    place_[def] = place_.at(fusion);
  }

  Block& block_;
  const PlanContext& context_;
  // Order of the operations; of several with one number, each follows those that it reads.
  std::map<const Operation*, size_t> place_;
};

}  // namespace

bool merge_fusions(Module& module, package::Determinism determinism, DecisionLog* log, TuningTable* tuning) {
  const PlanContext context{module.symbols, determinism, tuning};
  bool changed = false;
  for (const auto& function : module.functions) {
    changed = merge_casts(function->block, context, true) || changed;
    changed = Merger(function->block, context).run() || changed;
    changed = merge_casts(function->block, context, false) || changed;
    if (log) Merger(function->block, context).explain(*log);
  }
  return changed;
}

}  // namespace rtx::codegen
