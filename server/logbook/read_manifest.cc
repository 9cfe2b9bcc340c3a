// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/read_manifest.h"

#include <cstdint>
#include <optional>
#include <set>

#include "absl/strings/str_join.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "nlohmann/json.hpp"

namespace mpsd::logbook {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextBytes = 1024;  // of a name, a value
constexpr size_t kModelFiles = 100;  // digests of a model
constexpr size_t kVariables = 100;   // of an environment
constexpr size_t kHashBytes = 64;    // SHA-256, in hex

// The member, or null where there is none.
const Json& At(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string TextOf(const Json& value) {
  if (!value.is_string()) return "";
  return base::Shortened(base::Printable(value.get_ref<const std::string&>()),
                         kTextBytes);
}

std::optional<int64_t> IntOf(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::string HashOf(const Json& value) {
  const std::string hash = TextOf(value);
  return hash.size() == kHashBytes ? hash : "";
}

// The kernels that ran, each once: {"training": {"forward": "flash" …
std::string AttentionOf(const Json& attention) {
  std::set<std::string> names;
  const Json& training = At(attention, "training");
  for (const Json* name : {&At(training, "forward"), &At(training, "backward"),
                           &At(attention, "evaluation")}) {
    if (name->is_string()) names.insert(TextOf(*name));
  }
  return absl::StrJoin(names, ", ");
}

void ReadEnvironment(const Json& run, v1::RunEnvironment& out) {
  out.set_torch_version(TextOf(At(run, "torch_version")));
  out.set_worker_version(TextOf(At(run, "mpsd_version")));
  out.set_operating_system(TextOf(At(run, "operating_system")));
  out.set_processor(TextOf(At(run, "processor")));
  out.set_device(TextOf(At(run, "device")));
  out.set_device_description(TextOf(At(run, "device_description")));
  out.set_dtype(TextOf(At(run, "dtype")));
  out.set_attention(AttentionOf(At(run, "attention")));
  out.set_gradients(TextOf(At(run, "gradients")));
  const Json& variables = At(run, "environment");
  if (!variables.is_object()) return;
  for (const auto& [name, value] : variables.items()) {
    if (out.variables_size() >= static_cast<int>(kVariables)) break;
    if (!value.is_string()) continue;
    (*out.mutable_variables())[TextOf(Json(name))] = TextOf(value);
  }
}

void ReadShape(const Json& run, v1::RunShape& out) {
  if (const auto rows = IntOf(At(At(run, "micro_batch"), "rows"))) {
    out.set_chosen_batch_size(*rows);
  }
  if (const auto count = IntOf(At(run, "trainable_parameters"))) {
    out.set_trainable_parameters(*count);
  }
  if (const auto steps = IntOf(At(run, "total_steps"))) {
    out.set_total_steps(*steps);
  }
}

void ReadMemory(const Json& memory, v1::RunMemory& out) {
  if (const auto bytes = IntOf(At(memory, "peak_allocated_bytes"))) {
    out.set_peak_allocated_bytes(*bytes);
  }
  if (const auto bytes = IntOf(At(memory, "peak_driver_allocated_bytes"))) {
    out.set_peak_driver_allocated_bytes(*bytes);
  }
  if (const auto bytes = IntOf(At(memory, "peak_footprint_bytes"))) {
    out.set_peak_footprint_bytes(*bytes);
  }
}

void ReadFallbacks(const Json& ops, v1::RunFallbacks& out) {
  if (!ops.is_object()) return;
  for (const auto& [op, count] : ops.items()) {
    if (out.ops_size() >= static_cast<int>(limits::kFallbackOps)) break;
    if (const auto times = IntOf(count)) {
      (*out.mutable_ops())[TextOf(Json(op))] = *times;
    }
  }
}

void ReadData(const Json& run, v1::RunData& out) {
  const Json& train = At(run, "train");
  out.set_train_sha256(HashOf(At(train, "sha256")));
  out.set_eval_sha256(HashOf(At(At(run, "eval"), "sha256")));
  if (const auto rows = IntOf(At(train, "rows"))) out.set_rows(*rows);
  if (const auto tokens = IntOf(At(train, "tokens"))) out.set_tokens(*tokens);
  const Json& files = At(At(run, "model"), "sha256");
  if (!files.is_object()) return;
  for (const auto& [file, hash] : files.items()) {
    if (out.model_sha256_size() >= static_cast<int>(kModelFiles)) break;
    if (const std::string digest = HashOf(hash); !digest.empty()) {
      (*out.mutable_model_sha256())[TextOf(Json(file))] = digest;
    }
  }
}

}  // namespace

void ReadManifest(const std::string& text, v1::Record& record) {
  const Json run = base::ParseTree<Json>(text);
  if (!run.is_object()) return;
  ReadEnvironment(run, *record.mutable_environment());
  ReadShape(run, *record.mutable_shape());
  ReadMemory(At(run, "memory"), *record.mutable_memory());
  ReadFallbacks(At(run, "cpu_fallback_ops"), *record.mutable_fallbacks());
  ReadData(run, *record.mutable_data());
}

}  // namespace mpsd::logbook
