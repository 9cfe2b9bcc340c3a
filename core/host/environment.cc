// SPDX-License-Identifier: Apache-2.0
#include "core/host/environment.h"

#include <string_view>

#ifdef __APPLE__
#include <crt_externs.h>
#else
#include <unistd.h>
#endif

#include "absl/strings/numbers.h"

namespace mpsd::host {
namespace {

constexpr char kHighMark[] = "PYTORCH_MPS_HIGH_WATERMARK_RATIO";
constexpr char kLowMark[] = "PYTORCH_MPS_LOW_WATERMARK_RATIO";
constexpr char kFallback[] = "PYTORCH_ENABLE_MPS_FALLBACK";

char** Environ() {
#ifdef __APPLE__
  return *_NSGetEnviron();
#else
  return environ;
#endif
}

void SetWatermarks(Environment& environment) {
  environment.emplace(kHighMark, "0.95");
  environment.emplace(kLowMark, "0.75");
  double high = 0, low = 0;
  // A high mark of 0 means no limit.
  if (absl::SimpleAtod(environment[kHighMark], &high) && high > 0 &&
      absl::SimpleAtod(environment[kLowMark], &low) && low > high) {
    environment[kLowMark] = environment[kHighMark];
  }
}

void SetFallback(Environment& environment, bool allow) {
  int number = 0;
  const bool said = absl::SimpleAtoi(environment[kFallback], &number);
  if (allow || !said) {
    environment.insert_or_assign(kFallback, std::string(1, allow ? '1' : '0'));
  }
}

}  // namespace

Environment CurrentEnvironment() {
  Environment result;
  for (char** entry = Environ(); entry != nullptr && *entry != nullptr;
       ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

Environment WorkerEnvironment(Environment base, bool allow_cpu_fallback) {
  SetWatermarks(base);
  SetFallback(base, allow_cpu_fallback);
  base.emplace("PYTORCH_MPS_FAST_MATH", "0");
  base.emplace("AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1");
  base.emplace("OMP_WAIT_POLICY", "PASSIVE");
  return base;
}

}  // namespace mpsd::host
