// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_environment.h"

#include <string_view>

#ifdef __APPLE__
#include <crt_externs.h>
#else
#include <unistd.h>
#endif

namespace mpsd::supervisor {
namespace {

char** Environ() {
#ifdef __APPLE__
  return *_NSGetEnviron();
#else
  return environ;
#endif
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

Environment WorkerEnvironment(Environment base) {
  base.emplace("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.95");
  base.emplace("PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.75");
  base.emplace("PYTORCH_ENABLE_MPS_FALLBACK", "0");
  base.emplace("PYTORCH_MPS_FAST_MATH", "0");
  // OpenMP's threads wait asleep: on a machine that is shared, spinning ones
  // slow each other down by orders of magnitude.
  base.emplace("OMP_WAIT_POLICY", "PASSIVE");
  return base;
}

}  // namespace mpsd::supervisor
