// Result<T>: a value, or the diagnostics that say why there is none.
#pragma once

#include <cassert>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.h"

namespace rtx {

// One or more diagnostics, in a fixed order. The kind of the first decides the exit code.
struct Error {
  std::vector<Diagnostic> diagnostics;

  Error(Diagnostic diagnostic) { diagnostics.push_back(std::move(diagnostic)); }
  explicit Error(std::vector<Diagnostic> all) : diagnostics(std::move(all)) { assert(!diagnostics.empty()); }

  const Diagnostic& first() const { return diagnostics.front(); }
  // Puts `place` in front of the place of every diagnostic: each layer adds what it was doing.
  Error within(std::string_view place) &&;
};

// A function that can fail returns Result<T>. Either ok() and value(), or error().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result(Diagnostic diagnostic) : state_(std::in_place_index<1>, Error(std::move(diagnostic))) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};

// Success without a value: `return Ok{};`.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result(Ok) {}
  Result(Error error) : error_(std::move(error)) {}
  Result(Diagnostic diagnostic) : error_(Error(std::move(diagnostic))) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace rtx

// RTX_TRY(expression): returns the error of a Result<void> to the caller.
// RTX_ASSIGN(auto x, expression): unwraps a Result<T> into x, or returns its error to the caller.
#define RTX_TRY(expression)                                                                \
  do {                                                                                     \
    if (auto rtx_result = (expression); !rtx_result) return std::move(rtx_result).error(); \
  } while (false)
#define RTX_CONCAT_INNER(a, b) a##b
#define RTX_CONCAT(a, b) RTX_CONCAT_INNER(a, b)
#define RTX_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name) return std::move(name).error();            \
  declaration = std::move(name).value()
#define RTX_ASSIGN(declaration, expression) RTX_ASSIGN_INNER(RTX_CONCAT(rtx_result_, __LINE__), declaration, expression)
