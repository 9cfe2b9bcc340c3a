// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

// Invariants of our own code, checked in every build: `assert` is compiled out,
// since NDEBUG is defined even in Debug (torch's layout depends on it). A
// failed check writes one line to stderr (file, line, invariant, values) and
// aborts. A worker may end this way: the daemon retries its job. What a user, a
// client, a worker's message or a file can cause is never checked here; it
// returns an absl::Status.
//
// These are functions, not macros: a macro could print the condition's text,
// but `i < size` says nothing without its values, and torch's headers define
// CHECK themselves. So the caller names the invariant in words, which the
// reader needs too, and the two-operand forms print both values. The caller's
// location comes from __builtin_FILE and __builtin_LINE; std::source_location
// is missing where older clangs use GCC's library.
//
// A check that holds costs a comparison and a branch that is never taken. All
// checks may be used in constant expressions: a failure is then a compile
// error.

namespace mpsd::base {

namespace internal {

struct Number {
  template <std::integral T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Number(T value)
      : bits(static_cast<uint64_t>(value)), negative(std::cmp_less(value, 0)) {}

  uint64_t bits;
  bool negative;
};

[[noreturn]] void FailCheck(const char* invariant, const char* file, int line);
// `relation` is the operator that should have held between `a` and `b`.
[[noreturn]] void FailCheck(Number a, const char* relation, Number b,
                            const char* invariant, const char* file, int line);

}  // namespace internal

// `invariant` says in words what must hold: "Start is called once".
constexpr void Check(bool holds, const char* invariant,
                     const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    internal::FailCheck(invariant, file, line);
  }
}

// Compares two integers of any sign and width as numbers: -1 is less than every
// size_t. `what` names them: "ends and samples".

template <std::integral A, std::integral B>
constexpr void CheckEqual(A a, B b, const char* what,
                          const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  if (!std::cmp_equal(a, b)) [[unlikely]] {
    internal::FailCheck(a, "==", b, what, file, line);
  }
}

template <std::integral A, std::integral B>
constexpr void CheckLess(A a, B b, const char* what,
                         const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  if (!std::cmp_less(a, b)) [[unlikely]] {
    internal::FailCheck(a, "<", b, what, file, line);
  }
}

template <std::integral A, std::integral B>
constexpr void CheckAtMost(A a, B b, const char* what,
                           const char* file = __builtin_FILE(),
                           int line = __builtin_LINE()) {
  if (!std::cmp_less_equal(a, b)) [[unlikely]] {
    internal::FailCheck(a, "<=", b, what, file, line);
  }
}

// 0 <= index < size.
template <std::integral A, std::integral B>
constexpr void CheckIndex(A index, B size, const char* what,
                          const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  if (std::cmp_less(index, 0)) [[unlikely]] {
    internal::FailCheck(index, ">=", 0, what, file, line);
  }
  CheckLess(index, size, what, file, line);
}

}  // namespace mpsd::base
