// SPDX-License-Identifier: Apache-2.0
#include "server/planner/facts.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "core/base/json_depth.h"

namespace mpsd::planner {
namespace {

using Json = nlohmann::json;

void Put(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}
void Put(Json& json, const char* name, int64_t number) {
  if (number > 0) json[name] = number;
}

Json PaceJson(const Pace& pace) {
  return {{"runs", pace.runs},
          {"step_seconds", pace.step_seconds},
          {"tokens_per_second", pace.tokens_per_second},
          {"newest", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", pace.newest,
                                      absl::UTCTimeZone())}};
}

}  // namespace

std::string Encode(const Facts& facts) {
  Json json = Json::object();
  if (!facts.read_roots.empty()) json["read_roots"] = facts.read_roots;
  Put(json, "device", facts.device);
  Put(json, "chip", facts.chip);
  Put(json, "gpu_cores", facts.gpu_cores);
  Put(json, "cpu_cores", facts.cpu_cores);
  Put(json, "memory_bytes", facts.memory_bytes);
  Put(json, "memory_limit_bytes", facts.memory_limit_bytes);
  if (facts.disk_free_bytes) json["disk_free_bytes"] = *facts.disk_free_bytes;
  if (!facts.thresholds.empty()) json["thresholds"] = facts.thresholds;
  if (facts.pace) json["pace"] = PaceJson(*facts.pace);
  Json probe = base::ParseTree<Json>(facts.probe_json);
  if (probe.is_object()) json["probe"] = std::move(probe);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mpsd::planner
