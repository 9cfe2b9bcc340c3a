// SPDX-License-Identifier: Apache-2.0
#include "core/host/golden_environment.h"

#include <algorithm>
#include <iterator>

namespace mpsd::host {
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
constexpr std::string_view kSecretWords[] = {
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
      std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
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
