// SPDX-License-Identifier: Apache-2.0
#include "core/host/environment.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/numbers.h"

#ifdef __APPLE__
#include <crt_externs.h>
#else
#include <unistd.h>
#endif

namespace mpsd::host {
namespace {

constexpr char kHighMark[] = "PYTORCH_MPS_HIGH_WATERMARK_RATIO";
constexpr char kLowMark[] = "PYTORCH_MPS_LOW_WATERMARK_RATIO";
constexpr std::string_view kSecretWords[] = {"TOKEN", "SECRET", "PASSWORD",
                                             "CREDENTIAL", "API_KEY"};
constexpr char kFallback[] = "PYTORCH_ENABLE_MPS_FALLBACK";

// deploy/README.md lists the same names.
constexpr std::string_view kKept[] = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
    // Search paths of the dynamic linker, also for torch's CUDA.
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    // Set by macOS for each process of a user.
    "__CF_USER_TEXT_ENCODING", "XPC_FLAGS", "XPC_SERVICE_NAME",
    // The caches.
    "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
    "HF_HUB_OFFLINE", "TRANSFORMERS_CACHE"};
// The variables of torch, OpenMP, BLAS, the devices' drivers, the tokenizers'
// threads and the sanitizers.
constexpr std::string_view kKeptHeads[] = {
    "LC_",       "PYTORCH_", "TORCH_",  "OMP_",  "KMP_",   "GOMP_", "MKL_",
    "OPENBLAS_", "VECLIB_",  "AGX_",    "MTL_",  "METAL_", "CUDA_", "CUBLAS_",
    "NVIDIA_",   "RAYON_",   "MALLOC_", "ASAN_", "LSAN_",  "TSAN_", "UBSAN_"};

// A name that a prefix above would allow although it is a secret's, such as
// TORCH_HUB_TOKEN.
bool IsSecret(std::string_view name) {
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](std::string_view word) {
                       return name.find(word) != std::string_view::npos;
                     });
}

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

bool IsKeptForWorker(std::string_view name) {
  if (std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept)) {
    return true;
  }
  if (IsSecret(name)) return false;
  return std::any_of(
      std::begin(kKeptHeads), std::end(kKeptHeads),
      [&](std::string_view head) { return name.starts_with(head); });
}

Environment WithoutSecrets(const Environment& base) {
  Environment kept;
  for (const auto& [name, value] : base) {
    if (IsKeptForWorker(name)) kept.emplace(name, value);
  }
  return kept;
}

Environment WorkerEnvironment(Environment base, bool allow_cpu_fallback) {
  SetWatermarks(base);
  SetFallback(base, allow_cpu_fallback);
  base.emplace("PYTORCH_MPS_FAST_MATH", "0");
  base.emplace("AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1");
  base.emplace("OMP_WAIT_POLICY", "PASSIVE");
  return base;
}

namespace {

constexpr std::string_view kNames[] = {
    "PYTHONPATH", "PYTHONHOME", "LANG", "TZ", "XDG_CACHE_HOME",
    "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE",
    // The driver's watchdog and the validation layers of Metal.
    "AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "MTL_DEBUG_LAYER",
    "MTL_SHADER_VALIDATION", "METAL_DEVICE_WRAPPER_TYPE"};
constexpr std::string_view kHeads[] = {
    "OMP_",     "MKL_",    "KMP_",   "GOMP_",  "OPENBLAS_", "VECLIB_",
    "PYTORCH_", "TORCH_",  "DYLD_",  "LD_",    "LC_",       "HF_",
    "CUDA_",    "CUBLAS_", "RAYON_", "MALLOC_"};
// Words in names of secrets, as in WithoutSecrets, and other names for them.
constexpr std::string_view kSuspectWords[] = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH"};

}  // namespace

bool Matters(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) !=
             std::end(kNames) ||
         std::any_of(
             std::begin(kHeads), std::end(kHeads),
             [&](std::string_view head) { return name.starts_with(head); });
}

bool MayBeSecret(std::string_view name, std::string_view value) {
  const bool by_name =
      std::any_of(std::begin(kSuspectWords), std::end(kSuspectWords),
                  [&](std::string_view word) {
                    return name.find(word) != std::string_view::npos;
                  });
  if (by_name) return true;
  const size_t scheme = value.find("://");
  return scheme != std::string_view::npos &&
         value.find('@', scheme) != std::string_view::npos;
}

Environment ThoseThatMatter(const Environment& all) {
  Environment kept;
  for (const auto& [name, value] : all) {
    if (!Matters(name)) continue;
    kept.emplace(name, MayBeSecret(name, value) ? "set" : value);
  }
  return kept;
}

}  // namespace mpsd::host
