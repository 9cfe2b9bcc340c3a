// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace mpsd {
inline namespace testing_support {

// How often `run` calls each operator ("aten::linear") on its own thread.
inline std::map<std::string, int64_t> CallsOf(
    const std::function<void()>& run) {
  static thread_local std::map<std::string, int64_t> calls;
  calls.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& f)
                                     -> std::unique_ptr<at::ObserverContext> {
        ++calls[f.name()];
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  return calls;
}

}  // namespace testing_support
}  // namespace mpsd
