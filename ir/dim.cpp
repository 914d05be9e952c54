#include "ir/dim.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <set>

#include "base/text.h"

namespace rtx {

// --- representation -------------------------------------------------------------------------------------------------

namespace {

enum class AtomKind : uint8_t { symbol, floordiv, mod, min, max };
constexpr std::array<std::string_view, 5> atom_names = {"symbol", "floordiv", "mod", "min", "max"};

struct Atom {
  AtomKind kind;
  std::string name;  // of a symbol
  Dim a, b;          // of the others
};
using AtomPtr = std::shared_ptr<const Atom>;

int compare(const Atom& x, const Atom& y) {
  if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
  if (x.kind == AtomKind::symbol) return x.name.compare(y.name);
  if (!(x.a == y.a)) return x.a < y.a ? -1 : 1;
  if (!(x.b == y.b)) return x.b < y.b ? -1 : 1;
  return 0;
}

struct Factor {
  AtomPtr atom;
  int power;
};

// Sorted by atom. Never empty: the constant term is kept apart.
using Monomial = std::vector<Factor>;

int degree(const Monomial& m) {
  int sum = 0;
  for (const Factor& f : m) sum += f.power;
  return sum;
}

// Graded lexicographic order: total degree, then the earlier atom with the higher power. It is compatible with
// multiplication, which polynomial division needs. Returns < 0, 0, > 0.
int compare(const Monomial& x, const Monomial& y) {
  if (int d = degree(x) - degree(y)) return d;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (x[i].atom != y[i].atom) {
      if (int c = compare(*x[i].atom, *y[i].atom)) return -c;
    }
    if (x[i].power != y[i].power) return x[i].power - y[i].power;
  }
  return static_cast<int>(x.size()) - static_cast<int>(y.size());
}

Monomial multiply(const Monomial& x, const Monomial& y) {
  Monomial out;
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    int c = i == x.size() ? 1 : j == y.size() ? -1 : compare(*x[i].atom, *y[j].atom);
    if (c == 0) {
      out.push_back({x[i].atom, x[i].power + y[j].power});
      ++i, ++j;
    } else {
      out.push_back(c < 0 ? x[i++] : y[j++]);
    }
  }
  return out;
}

// x / y where every factor of y is in x with at least its power. An empty result means 1.
std::optional<Monomial> divide(const Monomial& x, const Monomial& y) {
  Monomial out;
  size_t j = 0;
  for (const Factor& f : x) {
    int power = f.power;
    if (j < y.size() && compare(*f.atom, *y[j].atom) == 0) power -= y[j++].power;
    if (power < 0) return std::nullopt;
    if (power > 0) out.push_back({f.atom, power});
  }
  if (j < y.size()) return std::nullopt;
  return out;
}

struct Term {
  Monomial monomial;
  int64_t coefficient;
};

// Wider than int64 so that bounds can saturate instead of overflow.
using Wide = __int128;
constexpr Wide infinite = static_cast<Wide>(INT64_MAX);

Wide clamp(Wide value) { return std::clamp(value, -infinite, infinite); }

struct Interval {
  Wide low, high;
};

Interval operator*(const Interval& x, const Interval& y) {
  const Wide products[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  return {clamp(*std::min_element(products, products + 4)), clamp(*std::max_element(products, products + 4))};
}

}  // namespace

// In descending monomial order, no zero coefficients, never empty.
struct Dim::Terms {
  std::vector<Term> list;
};

// The functions that need both the private representation and the types above.
struct DimBuilder {
  static const std::vector<Term>& terms(const Dim& d) {
    static const std::vector<Term> none;
    return d.terms_ ? d.terms_->list : none;
  }
  static int64_t constant(const Dim& d) { return d.constant_; }

  static Dim overflow() {
    Dim out;
    out.overflowed_ = true;
    return out;
  }

  // `terms` in descending order without duplicates; drops zero coefficients.
  static Dim make(int64_t constant, std::vector<Term> terms) {
    std::erase_if(terms, [](const Term& t) { return t.coefficient == 0; });
    Dim out(constant);
    if (!terms.empty()) out.terms_ = std::make_shared<const Dim::Terms>(Dim::Terms{std::move(terms)});
    return out;
  }

  static Dim atom(Atom atom) { return term({{{std::make_shared<const Atom>(std::move(atom)), 1}}, 1}); }
  static Dim term(Term t) {
    if (t.monomial.empty()) return Dim(t.coefficient);
    return make(0, {std::move(t)});
  }

  static Dim add(const Dim& a, const Dim& b, int64_t scale_b) {
    if (a.overflowed_ || b.overflowed_) return overflow();
    int64_t constant, scaled;
    if (__builtin_mul_overflow(b.constant_, scale_b, &scaled) || __builtin_add_overflow(a.constant_, scaled, &constant))
      return overflow();
    if (!a.terms_ && !b.terms_) return Dim(constant);
    std::vector<Term> out;
    const auto &x = terms(a), &y = terms(b);
    size_t i = 0, j = 0;
    while (i < x.size() || j < y.size()) {
      int c = i == x.size() ? -1 : j == y.size() ? 1 : compare(x[i].monomial, y[j].monomial);
      int64_t from_b = 0, sum = 0;
      if (c <= 0 && __builtin_mul_overflow(y[j].coefficient, scale_b, &from_b)) return overflow();
      if (c > 0) {
        out.push_back(x[i++]);
      } else if (c < 0) {
        out.push_back({y[j++].monomial, from_b});
      } else {
        if (__builtin_add_overflow(x[i].coefficient, from_b, &sum)) return overflow();
        out.push_back({x[i].monomial, sum});
        ++i, ++j;
      }
    }
    return make(constant, std::move(out));
  }

  static Dim multiply_term(const Dim& a, const Term& t) {
    if (a.overflowed_) return overflow();
    std::vector<Term> out;
    for (const Term& x : terms(a)) {
      int64_t c;
      if (__builtin_mul_overflow(x.coefficient, t.coefficient, &c)) return overflow();
      out.push_back({multiply(x.monomial, t.monomial), c});
    }
    int64_t c;
    if (__builtin_mul_overflow(a.constant_, t.coefficient, &c)) return overflow();
    if (t.monomial.empty()) return make(c, std::move(out));
    // Multiplying by a monomial keeps the order; the constant becomes the last term.
    out.push_back({t.monomial, c});
    return make(0, std::move(out));
  }

  // An atom of two operands, after the simplifications that callers did.
  static Dim pair(AtomKind kind, const Dim& a, const Dim& b) {
    if (a.overflowed_ || b.overflowed_) return overflow();
    return atom({kind, {}, a, b});
  }

  // a = c*quotient + remainder, where remainder keeps what c does not divide. Needs c > 1.
  static std::pair<Dim, Dim> split_by(const Dim& a, int64_t c) {
    std::vector<Term> quotient, remainder;
    for (const Term& t : terms(a)) {
      if (t.coefficient % c == 0)
        quotient.push_back({t.monomial, t.coefficient / c});
      else
        remainder.push_back(t);
    }
    int64_t rest = a.constant_ % c;
    if (rest < 0) rest += c;
    return {make((a.constant_ - rest) / c, std::move(quotient)), make(rest, std::move(remainder))};
  }

  template <typename Visit>
  static void visit_atoms(const Dim& d, const Visit& visit) {
    for (const Term& t : terms(d))
      for (const Factor& f : t.monomial) visit(*f.atom);
  }

  static Interval bounds(const Dim& d, const SymbolRanges& ranges) {
    Interval sum{d.constant_, d.constant_};
    for (const Term& t : terms(d)) {
      Interval product{t.coefficient, t.coefficient};
      for (const Factor& f : t.monomial) {
        Interval one = bounds(*f.atom, ranges);
        for (int i = 0; i < f.power; ++i) product = product * one;
      }
      sum = {clamp(sum.low + product.low), clamp(sum.high + product.high)};
    }
    return sum;
  }

  static Interval bounds(const Atom& atom, const SymbolRanges& ranges) {
    if (atom.kind == AtomKind::symbol) {
      auto found = ranges.find(atom.name);
      SymbolRange range = found == ranges.end() ? SymbolRange{} : found->second;
      return {range.min, range.max};
    }
    Interval a = bounds(atom.a, ranges), b = bounds(atom.b, ranges);
    switch (atom.kind) {
      case AtomKind::min:
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case AtomKind::max:
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case AtomKind::mod:
        if (b.low > 0) return {0, a.low >= 0 ? std::min(a.high, b.high - 1) : b.high - 1};
        return {-infinite, infinite};
      case AtomKind::floordiv:
        if (b.low > 0 && a.low >= 0) return {a.low / b.high, a.high / b.low};
        if (b.low > 0) return {a.low, std::max<Wide>(a.high, 0)};
        return {-infinite, infinite};
      case AtomKind::symbol:
        break;
    }
    return {-infinite, infinite};
  }

  static Result<int64_t> evaluate(const Atom& atom, const SymbolValues& values) {
    if (atom.kind == AtomKind::symbol) {
      auto found = values.find(atom.name);
      if (found == values.end())
        return make_error(ErrorKind::internal, "E330", concat("symbol '", atom.name, "' has no value"));
      return found->second;
    }
    RTX_ASSIGN(int64_t a, atom.a.evaluate(values));
    RTX_ASSIGN(int64_t b, atom.b.evaluate(values));
    if (atom.kind == AtomKind::min) return std::min(a, b);
    if (atom.kind == AtomKind::max) return std::max(a, b);
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return make_error(ErrorKind::invalid, "E331",
                        concat("dim expression divides ", a, " by ", b, ": ", atom_names[size_t(atom.kind)], "(",
                               atom.a.str(), ", ", atom.b.str(), ")"));
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && ((remainder < 0) != (b < 0))) {
      quotient -= 1;
      remainder += b;
    }
    return atom.kind == AtomKind::floordiv ? quotient : remainder;
  }

  static Dim substituted(const Atom& atom, std::string_view name, const Dim& replacement) {
    if (atom.kind == AtomKind::symbol) return atom.name == name ? replacement : Dim::symbol(atom.name);
    Dim a = atom.a.substituted(name, replacement), b = atom.b.substituted(name, replacement);
    switch (atom.kind) {
      case AtomKind::floordiv:
        return floordiv(a, b);
      case AtomKind::mod:
        return mod(a, b);
      case AtomKind::min:
        return min(a, b);
      case AtomKind::max:
        return max(a, b);
      case AtomKind::symbol:
        break;
    }
    return overflow();
  }

  static bool mentions(const Dim& d, std::string_view name) {
    bool found = false;
    visit_atoms(d, [&](const Atom& atom) {
      found = found ||
              (atom.kind == AtomKind::symbol ? atom.name == name : mentions(atom.a, name) || mentions(atom.b, name));
    });
    return found;
  }

  static int compare_dims(const Dim& a, const Dim& b) {
    if (a.overflowed_ != b.overflowed_) return a.overflowed_ ? 1 : -1;
    const auto &x = terms(a), &y = terms(b);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (int c = compare(x[i].monomial, y[i].monomial)) return c;
      if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
    }
    if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    return a.constant_ < b.constant_ ? -1 : a.constant_ > b.constant_;
  }
};

// --- arithmetic -----------------------------------------------------------------------------------------------------

Dim Dim::symbol(std::string name) { return DimBuilder::atom({AtomKind::symbol, std::move(name), {}, {}}); }

int64_t Dim::constant() const {
  assert(is_constant());
  return constant_;
}

std::optional<std::string> Dim::as_symbol() const {
  const auto& terms = DimBuilder::terms(*this);
  if (overflowed_ || constant_ != 0 || terms.size() != 1 || terms[0].coefficient != 1) return std::nullopt;
  const Monomial& m = terms[0].monomial;
  if (m.size() != 1 || m[0].power != 1 || m[0].atom->kind != AtomKind::symbol) return std::nullopt;
  return m[0].atom->name;
}

Dim operator+(const Dim& a, const Dim& b) { return DimBuilder::add(a, b, 1); }
Dim operator-(const Dim& a, const Dim& b) { return DimBuilder::add(a, b, -1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim sum = DimBuilder::multiply_term(a, {{}, b.constant_});
  for (const Term& t : DimBuilder::terms(b)) sum = sum + DimBuilder::multiply_term(a, t);
  return b.overflowed_ ? DimBuilder::overflow() : sum;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.terms_ == b.terms_) return a.constant_ == b.constant_ && a.overflowed_ == b.overflowed_;
  return DimBuilder::compare_dims(a, b) == 0;
}

bool operator<(const Dim& a, const Dim& b) { return DimBuilder::compare_dims(a, b) < 0; }

std::optional<Dim> Dim::divided_by(const Dim& divisor) const {
  if (overflowed_ || divisor.overflowed_ || divisor.is(0)) return std::nullopt;
  auto leading = [](const Dim& d) {
    const auto& terms = DimBuilder::terms(d);
    return terms.empty() ? Term{{}, d.constant_} : terms.front();
  };
  const Term lead = leading(divisor);
  Dim rest = *this, quotient(0);
  // Each step removes the leading monomial of `rest`, and the ones below it are finitely many.
  while (!rest.is(0)) {
    Term top = leading(rest);
    std::optional<Monomial> monomial = divide(top.monomial, lead.monomial);
    if (!monomial || top.coefficient % lead.coefficient != 0) return std::nullopt;
    Dim step = DimBuilder::term({*monomial, top.coefficient / lead.coefficient});
    quotient = quotient + step;
    rest = rest - step * divisor;
    if (rest.overflowed_ || quotient.overflowed_) return std::nullopt;
  }
  return quotient;
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.overflowed() || b.overflowed()) return DimBuilder::overflow();
  if (!b.is(0)) {
    if (std::optional<Dim> exact = a.divided_by(b)) return *exact;
  }
  if (b.is_constant() && b.constant() > 1) {
    auto [quotient, remainder] = DimBuilder::split_by(a, b.constant());
    if (remainder.is_constant()) return quotient;  // 0 <= remainder < b
    return quotient + DimBuilder::pair(AtomKind::floordiv, remainder, b);
  }
  if (a.is_constant() && b.is_constant() && b.constant() != 0) {
    Result<int64_t> value = DimBuilder::evaluate({AtomKind::floordiv, {}, a, b}, {});
    return value ? Dim(*value) : DimBuilder::overflow();
  }
  return DimBuilder::pair(AtomKind::floordiv, a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (a.overflowed() || b.overflowed()) return DimBuilder::overflow();
  if (!b.is(0) && a.divided_by(b)) return Dim(0);
  if (b.is_constant() && b.constant() > 1) {
    Dim remainder = DimBuilder::split_by(a, b.constant()).second;
    return remainder.is_constant() ? remainder : DimBuilder::pair(AtomKind::mod, remainder, b);
  }
  if (a.is_constant() && b.is_constant() && b.constant() != 0) {
    Result<int64_t> value = DimBuilder::evaluate({AtomKind::mod, {}, a, b}, {});
    return value ? Dim(*value) : DimBuilder::overflow();
  }
  return DimBuilder::pair(AtomKind::mod, a, b);
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - 1, b); }

namespace {

// min and max commute and are decided where the difference is a constant.
Dim extremum(AtomKind kind, const Dim& a, const Dim& b) {
  Dim difference = a - b;
  if (difference.is_constant()) {
    bool a_smaller = difference.constant() <= 0;
    return a_smaller == (kind == AtomKind::min) ? a : b;
  }
  return b < a ? DimBuilder::pair(kind, a, b) : DimBuilder::pair(kind, b, a);
}

}  // namespace

Dim min(const Dim& a, const Dim& b) { return extremum(AtomKind::min, a, b); }
Dim max(const Dim& a, const Dim& b) { return extremum(AtomKind::max, a, b); }

// --- queries --------------------------------------------------------------------------------------------------------

void Dim::collect_symbols(std::vector<std::string>& names) const {
  std::set<std::string> found(names.begin(), names.end());
  auto visit = [&](auto& self, const Dim& d) -> void {
    DimBuilder::visit_atoms(d, [&](const Atom& atom) {
      if (atom.kind == AtomKind::symbol) {
        found.insert(atom.name);
      } else {
        self(self, atom.a);
        self(self, atom.b);
      }
    });
  };
  visit(visit, *this);
  names.assign(found.begin(), found.end());
}

Dim Dim::substituted(std::string_view name, const Dim& replacement) const {
  if (!terms_ || !DimBuilder::mentions(*this, name)) return *this;
  Dim sum(constant_);
  for (const Term& t : terms_->list) {
    Dim product(t.coefficient);
    for (const Factor& f : t.monomial) {
      Dim value = DimBuilder::substituted(*f.atom, name, replacement);
      for (int i = 0; i < f.power; ++i) product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

Result<int64_t> Dim::evaluate(const SymbolValues& values) const {
  auto overflow = [&] {
    return make_error(ErrorKind::limit, "E511", concat("dim expression leaves int64: ", overflowed_ ? "?" : str()));
  };
  if (overflowed_) return overflow();
  int64_t sum = constant_;
  for (const Term& t : DimBuilder::terms(*this)) {
    int64_t product = t.coefficient;
    for (const Factor& f : t.monomial) {
      RTX_ASSIGN(int64_t value, DimBuilder::evaluate(*f.atom, values));
      for (int i = 0; i < f.power; ++i)
        if (__builtin_mul_overflow(product, value, &product)) return overflow();
    }
    if (__builtin_add_overflow(sum, product, &sum)) return overflow();
  }
  return sum;
}

int64_t Dim::lower_bound(const SymbolRanges& ranges) const {
  return overflowed_ ? -INT64_MAX : static_cast<int64_t>(DimBuilder::bounds(*this, ranges).low);
}

int64_t Dim::upper_bound(const SymbolRanges& ranges) const {
  return overflowed_ ? INT64_MAX : static_cast<int64_t>(DimBuilder::bounds(*this, ranges).high);
}

std::string Dim::str() const {
  if (overflowed_) return "overflow";
  std::string out;
  auto add_term = [&](int64_t coefficient, const std::string& factors) {
    bool negative = coefficient < 0;
    if (out.empty()) {
      if (negative) out += "-";
    } else {
      out += negative ? " - " : " + ";
    }
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(coefficient) : static_cast<uint64_t>(coefficient);
    if (factors.empty()) {
      out += std::to_string(magnitude);
    } else {
      if (magnitude != 1) out += std::to_string(magnitude) + "*";
      out += factors;
    }
  };
  for (const Term& t : DimBuilder::terms(*this)) {
    std::string factors;
    for (const Factor& f : t.monomial) {
      std::string text = f.atom->kind == AtomKind::symbol ? f.atom->name
                                                          : concat(atom_names[size_t(f.atom->kind)], "(",
                                                                   f.atom->a.str(), ", ", f.atom->b.str(), ")");
      for (int i = 0; i < f.power; ++i) {
        if (!factors.empty()) factors += "*";
        factors += text;
      }
    }
    add_term(t.coefficient, factors);
  }
  if (constant_ != 0 || out.empty()) add_term(constant_, {});
  return out;
}

std::optional<Dim::Solution> Dim::solve(const Dim& a, const Dim& b) {
  Dim difference = a - b;
  if (difference.overflowed()) return std::nullopt;
  std::optional<Solution> best;
  bool best_is_sum = false;
  for (const Term& t : DimBuilder::terms(difference)) {
    if (t.monomial.size() != 1 || t.monomial[0].power != 1 || t.monomial[0].atom->kind != AtomKind::symbol) continue;
    if (t.coefficient != 1 && t.coefficient != -1) continue;
    const std::string& name = t.monomial[0].atom->name;
    Dim rest = difference - DimBuilder::term(t);
    if (DimBuilder::mentions(rest, name)) continue;
    Dim value = t.coefficient == 1 ? Dim(0) - rest : rest;
    if (value.overflowed()) continue;
    // A plain sum is never negative where its symbols are not, so it is the better definition:
    // total := past + seq rather than past := total - seq.
    bool is_sum = value.constant_ >= 0;
    for (const Term& v : DimBuilder::terms(value)) is_sum = is_sum && v.coefficient > 0;
    if (!best || (is_sum && !best_is_sum) || (is_sum == best_is_sum && best->symbol < name)) {
      best = Solution{name, value};
      best_is_sum = is_sum;
    }
  }
  return best;
}

}  // namespace rtx
