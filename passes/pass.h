// What a pass is: Result<bool> name(Module&, PassContext&), true if it changed anything. A pass knows nothing of
// timing, dumping, verifying or its neighbours (passes/pipeline.h does that).
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace rtx {

struct PassContext {
  // Constant folding: the largest single folded value, and the sum over one run of the pipeline.
  int64_t max_folded_bytes = int64_t{256} << 20;
  int64_t max_folded_total_bytes = int64_t{1} << 30;
  int64_t folded_bytes = 0;
  // Notes for the user, in program order.
  std::vector<Diagnostic> remarks;
};

// The operations a rewriting pass still has to look at. Each is in it at most once, first in, first out.
class Worklist {
 public:
  void push(Operation* operation) {
    if (waiting_.insert(operation).second) queue_.push_back(operation);
  }
  void push_users(const Value* value) {
    for (const Use& use : value->uses()) push(use.user);
  }
  // Must be called before an operation is erased.
  void remove(Operation* operation) { waiting_.erase(operation); }
  // Null when empty.
  Operation* pop() {
    while (!queue_.empty()) {
      Operation* operation = queue_.front();
      queue_.pop_front();
      if (waiting_.erase(operation)) return operation;
    }
    return nullptr;
  }

 private:
  std::deque<Operation*> queue_;  // may hold removed operations; waiting_ decides
  std::unordered_set<Operation*> waiting_;
};

}  // namespace rtx
