// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec.h"

#include <filesystem>
#include <system_error>

#include "core/base/status_macros.h"
#include "core/spec/fields.h"
#include "core/spec/findings.h"
#include "core/spec/json_node.h"
#include "core/spec/named_result.h"
#include "core/spec/train_spec_fields.h"
#include "core/spec/train_spec_rules.h"

namespace mpsd::spec {

namespace fs = std::filesystem;

absl::StatusOr<TrainSpec> ParseTrainSpec(std::string_view json,
                                         std::string_view origin) {
  ASSIGN_OR_RETURN(JsonNode root, ParseJson(json, origin));
  Findings findings;
  if (root.kind != JsonNode::Kind::kObject) {
    findings.Add(root.line, "",
                 "expected an object with \"model\" and \"dataset\", found " +
                     Describe(root));
    return findings.ToStatus(origin);
  }
  TrainSpec spec;
  VisitSpec(FieldReader(&root, "", findings), spec);
  if (findings.empty()) CheckRules(spec, root, findings);
  if (!findings.empty()) return findings.ToStatus(origin);
  return spec;
}

std::string ToJson(const TrainSpec& spec) {
  TrainSpec copy = spec;
  FieldWriter::Json root;
  VisitSpec(FieldWriter(root), copy);
  return root.dump(-1, ' ', false, FieldWriter::Json::error_handler_t::replace);
}

TrainSpec ResolvePaths(TrainSpec spec, const std::string& base_dir) {
  std::error_code error;
  const fs::path base = fs::absolute(base_dir, error);
  const bool is_id = !fs::is_directory(base / spec.model, error);
  VisitPaths(spec, [&](const char*, std::string& path) {
    if (path.empty() || NamesResult(path)) return;
    if (is_id && &path == &spec.model) return;
    path = (base / path).lexically_normal().string();
  });
  return spec;
}

}  // namespace mpsd::spec
