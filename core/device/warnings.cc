// SPDX-License-Identifier: Apache-2.0
#include "core/device/warnings.h"

#include <utility>

namespace mpsd::device {
namespace {

// Bounds `told_`: texts that contain numbers might never repeat.
constexpr size_t kMostTold = 200;

}  // namespace

WarningCapture::WarningCapture(std::function<void(const std::string&)> tell)
    : tell_(std::move(tell)), always_(true), guard_(this) {}

void WarningCapture::process(const c10::Warning& warning) {
  const std::string op = CpuFallbackOp(warning.msg());
  if (!op.empty()) {
    ++fallbacks_[op];
  } else if (told_.size() < kMostTold && told_.insert(warning.msg()).second) {
    tell_(warning.msg());
  }
}

std::string CpuFallbackOp(const std::string& warning) {
  constexpr char kHead[] = "The operator '";
  const size_t head = warning.find(kHead);
  if (head == std::string::npos ||
      warning.find("fall back to run on the CPU") == std::string::npos) {
    return "";
  }
  const size_t begin = head + sizeof kHead - 1;
  const size_t end = warning.find('\'', begin);
  return end == std::string::npos ? "" : warning.substr(begin, end - begin);
}

}  // namespace mpsd::device
