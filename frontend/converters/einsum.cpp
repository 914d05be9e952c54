// Einsum, lowered to transposes, sums and matmul.

#include <algorithm>
#include <map>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// Any number of terms, from left to right.
struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

// Letters stand for themselves; the axes under an ellipsis get the characters '0' to '9'.
Result<Equation> parse_equation(Conversion& c) {
  std::string text;
  for (char ch : c.string("equation", ""))
    if (ch != ' ') text += ch;
  Equation equation;
  size_t arrow = text.find("->");
  std::string inputs = text.substr(0, arrow);
  for (size_t at = 0;;) {
    size_t comma = inputs.find(',', at);
    equation.terms.push_back(inputs.substr(at, comma == std::string::npos ? comma : comma - at));
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  if (equation.terms.size() != c.input_count())
    return c.invalid("E321",
                     concat("the equation has ", equation.terms.size(), " terms for ", c.input_count(), " inputs"));
  size_t hidden = 0;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    std::string& term = equation.terms[i];
    size_t dots = term.find("...");
    size_t letters = term.size() - (dots == std::string::npos ? 0 : 3);
    size_t rank = static_cast<size_t>(c.rank(i));
    if (rank < letters || (dots == std::string::npos && rank != letters))
      return c.invalid("E321", concat("term '", escape_text(term), "' does not fit rank ", rank));
    if (dots == std::string::npos) continue;
    size_t covered = rank - letters;
    if (covered > 8) return c.unsupported("an ellipsis over more than 8 axes");
    hidden = std::max(hidden, covered);
    std::string digits;
    for (size_t k = covered; k-- > 0;) digits += static_cast<char>('0' + k);  // aligned from the right
    term.replace(dots, 3, digits);
  }
  std::string all_hidden;
  for (size_t k = hidden; k-- > 0;) all_hidden += static_cast<char>('0' + k);
  if (arrow == std::string::npos) {
    std::map<char, int> counts;
    for (const std::string& term : equation.terms)
      for (char ch : term)
        if (std::isalpha(static_cast<unsigned char>(ch))) ++counts[ch];
    equation.result = all_hidden;
    for (auto [letter, count] : counts)
      if (count == 1) equation.result += letter;
  } else {
    equation.result = text.substr(arrow + 2);
    size_t dots = equation.result.find("...");
    if (dots != std::string::npos) equation.result.replace(dots, 3, all_hidden);
  }
  for (const std::string& term : equation.terms)
    for (char ch : term)
      if (!std::isalnum(static_cast<unsigned char>(ch))) return c.invalid("E321", "the equation is malformed");
  std::string known = join(equation.terms, "");
  for (size_t i = 0; i < equation.result.size(); ++i)
    if (known.find(equation.result[i]) == std::string::npos ||
        equation.result.find(equation.result[i], i + 1) != std::string::npos)
      return c.invalid("E321", "the result of the equation is malformed");
  return equation;
}

bool contains(const std::string& text, char ch) { return text.find(ch) != std::string::npos; }

// Brings x with axes `have` to axes `want` (a superset in another order); axes that are missing become 1.
Result<Value*> arranged(Conversion& c, Value* x, const std::string& have, const std::string& want) {
  std::vector<int64_t> perm;
  Shape shape;
  for (char ch : want) {
    size_t at = have.find(ch);
    if (at == std::string::npos) {
      shape.push_back(1);
    } else {
      perm.push_back(static_cast<int64_t>(at));
      shape.push_back(x->type.shape[at]);
    }
  }
  RTX_ASSIGN(x, c.transpose(x, std::move(perm)));
  return c.reshape(x, std::move(shape));
}

// The diagonal of x over the two axes of a letter that repeats, until none does: x[.., i, i] is element i of row i.
Result<Value*> diagonal(Conversion& c, Value* x, std::string& term) {
  for (size_t first = 0; first < term.size();) {
    const size_t second = term.find(term[first], first + 1);
    if (second == std::string::npos) {
      ++first;
      continue;
    }
    const char letter = term[first];
    const Dim rows = x->type.shape[first], columns = x->type.shape[second];
    if (rows != columns && !c.unify(rows, columns))
      return c.invalid("E321", concat("letter '", letter, "' has sizes ", rows.str(), " and ", columns.str()));
    term.erase(second, 1);
    term.erase(first, 1);
    std::vector<int64_t> perm;
    for (int64_t axis = 0; axis < x->type.rank(); ++axis)
      if (axis != static_cast<int64_t>(first) && axis != static_cast<int64_t>(second)) perm.push_back(axis);
    perm.push_back(static_cast<int64_t>(first));
    perm.push_back(static_cast<int64_t>(second));
    RTX_ASSIGN(x, c.transpose(x, std::move(perm)));
    Shape shape = x->type.shape;
    const int last = x->type.rank() - 1;
    shape.back() = 1;
    RTX_ASSIGN(Value * row, c.iota(DType::i64, x->type.rank(), last - 1, shape[static_cast<size_t>(last) - 1]));
    RTX_ASSIGN(row, c.broadcast(row, shape));
    RTX_ASSIGN(x, c.emit(Op::gather_elements, {x, row}, {{"axis", static_cast<int64_t>(last)}}));
    shape.pop_back();
    RTX_ASSIGN(x, c.reshape(x, std::move(shape)));
    term += letter;
    first = 0;  // the axes have moved
  }
  return x;
}

Result<Value*> summed(Conversion& c, Value* x, std::string& term, const std::string& keep) {
  std::vector<int64_t> axes;
  std::string rest;
  for (size_t i = 0; i < term.size(); ++i) {
    if (contains(keep, term[i]))
      rest += term[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  term = rest;
  return axes.empty() ? Result<Value*>(x) : c.reduce(Op::reduce_sum, x, std::move(axes), false);
}

// Two terms: batch letters (both and in the result), rows (only left), columns (only right), inner (both, summed).
Result<Value*> contract(Conversion& c, Value* a, std::string left, Value* b, std::string right,
                        const std::string& result, std::string* order) {
  RTX_ASSIGN(a, summed(c, a, left, right + result));
  RTX_ASSIGN(b, summed(c, b, right, left + result));
  std::string batch, rows, columns, inner;
  for (char ch : left) (contains(right, ch) ? (contains(result, ch) ? batch : inner) : rows) += ch;
  for (char ch : right)
    if (!contains(left, ch)) columns += ch;
  for (char ch : batch + inner) {
    Dim in_a = a->type.shape[left.find(ch)], in_b = b->type.shape[right.find(ch)];
    if (in_a != in_b && !in_a.is(1) && !in_b.is(1) && !c.unify(in_a, in_b))
      return c.invalid("E321", concat("letter '", ch, "' has sizes ", in_a.str(), " and ", in_b.str()));
    // One side is the same all along the letter: the other may be summed first.
    if (contains(inner, ch) && in_a.is(1) != in_b.is(1)) {
      Value*& long_side = in_a.is(1) ? b : a;
      const std::string& letters = in_a.is(1) ? right : left;
      RTX_ASSIGN(long_side, c.reduce(Op::reduce_sum, long_side, {static_cast<int64_t>(letters.find(ch))}, true));
    }
  }
  RTX_ASSIGN(a, arranged(c, a, left, batch + rows + inner));
  RTX_ASSIGN(b, arranged(c, b, right, batch + inner + columns));
  auto merged = [&](Value* x, size_t first, size_t second) {
    Shape shape(x->type.shape.begin(), x->type.shape.begin() + batch.size());
    Dim one = 1, two = 1;
    for (size_t i = 0; i < first; ++i) one = one * x->type.shape[batch.size() + i];
    for (size_t i = 0; i < second; ++i) two = two * x->type.shape[batch.size() + first + i];
    shape.push_back(one);
    shape.push_back(two);
    return shape;
  };
  Shape row_dims(a->type.shape.begin() + batch.size(), a->type.shape.begin() + batch.size() + rows.size());
  Shape column_dims(b->type.shape.end() - columns.size(), b->type.shape.end());
  RTX_ASSIGN(a, c.reshape(a, merged(a, rows.size(), inner.size())));
  RTX_ASSIGN(b, c.reshape(b, merged(b, inner.size(), columns.size())));
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {a, b}));
  Shape shape(y->type.shape.begin(), y->type.shape.begin() + batch.size());
  shape.insert(shape.end(), row_dims.begin(), row_dims.end());
  shape.insert(shape.end(), column_dims.begin(), column_dims.end());
  RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
  *order = batch + rows + columns;
  return y;
}

Result<void> einsum(Conversion& c) {
  RTX_ASSIGN(Equation equation, parse_equation(c));
  RTX_ASSIGN(Value * y, c.input(0));
  std::string order = equation.terms[0];
  RTX_ASSIGN(y, diagonal(c, y, order));
  for (size_t i = 1; i < equation.terms.size(); ++i) {
    // Letters that later terms or the result use are kept.
    std::string keep = equation.result;
    for (size_t k = i + 1; k < equation.terms.size(); ++k) keep += equation.terms[k];
    RTX_ASSIGN(Value * next, c.input(i));
    std::string term = equation.terms[i];
    RTX_ASSIGN(next, diagonal(c, next, term));
    RTX_ASSIGN(y, contract(c, y, order, next, term, keep, &order));
  }
  RTX_ASSIGN(y, summed(c, y, order, equation.result));
  RTX_ASSIGN(y, arranged(c, y, order, equation.result));
  RTX_ASSIGN(Value * x, c.input(0));
  if (y == x)
    c.alias(0, 0);
  else
    c.set(0, y);
  return Ok{};
}

}  // namespace

constinit const Converter einsum_converters[] = {
    {"Einsum", 12, einsum, never, "equation", 1, any_number},
};
std::span<const Converter> einsum_table() { return einsum_converters; }

}  // namespace rtx::onnx
