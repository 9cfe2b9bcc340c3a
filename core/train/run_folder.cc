// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

using json = nlohmann::ordered_json;

constexpr char kMetrics[] = "metrics.jsonl";
constexpr char kEvals[] = "eval.jsonl";

// The lines whose step is at most `step`; a line cut short by a crash goes.
std::string KeepUntil(std::string_view text, int64_t step) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step")) continue;
    if (object["step"].get<int64_t>() > step) break;
    kept.append(line).push_back('\n');
  }
  return kept;
}

absl::Status AppendLine(std::FILE* file, const std::string& line,
                        const std::filesystem::path& folder) {
  const std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fflush(file) != 0) {
    return base::ErrnoStatus(errno, folder.string());
  }
  return absl::OkStatus();
}

void PutMemory(json& object, const char* name,
               const std::optional<int64_t>& bytes) {
  if (bytes) object[name] = *bytes;
}

}  // namespace

std::string ToJsonLine(const StepReport& r) {
  json memory = json::object();
  PutMemory(memory, "current_allocated_bytes", r.memory.current_allocated);
  PutMemory(memory, "peak_allocated_bytes", r.memory.peak_allocated);
  PutMemory(memory, "driver_allocated_bytes", r.memory.driver_allocated);
  PutMemory(memory, "recommended_max_bytes", r.memory.recommended_max);
  memory["footprint_bytes"] = r.footprint_bytes;
  json line = {{"step", r.step},
               {"total_steps", r.total_steps},
               {"epoch", r.epoch},
               {"loss", r.loss},
               {"learning_rate", r.learning_rate},
               {"grad_norm", r.grad_norm},
               {"tokens", r.tokens},
               {"padded_tokens", r.padded_tokens},
               {"label_tokens", r.label_tokens},
               {"seconds", r.seconds},
               {"data_wait_seconds", r.data_wait_seconds},
               {"device", r.device},
               {"memory", memory}};
  if (!r.cpu_fallback_ops.empty())
    line["cpu_fallback_ops"] = r.cpu_fallback_ops;
  return line.dump();
}

std::string ToJsonLine(const EvalReport& r) {
  json line = {{"step", r.step},
               {"eval_loss", r.eval_loss},
               {"label_tokens", r.label_tokens},
               {"seconds", r.seconds}};
  for (const auto& [name, value] : r.metrics) line["eval_" + name] = value;
  return line.dump();
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(
    const std::filesystem::path& path, int64_t step, int64_t eval_step) {
  std::error_code error;
  std::filesystem::create_directories(path / "checkpoints", error);
  if (error) return base::ErrnoStatus(error.value(), path.string());
  std::unique_ptr<RunFolder> folder(new RunFolder);
  folder->path_ = path;
  absl::Status s = folder->OpenLog(kMetrics, step, folder->metrics_);
  if (s.ok()) s = folder->OpenLog(kEvals, eval_step, folder->evals_);
  if (!s.ok()) return s;
  return folder;
}

absl::Status RunFolder::OpenLog(const std::string& name, int64_t step,
                                File& file) {
  const std::filesystem::path path = path_ / name;
  std::string text;
  if (std::filesystem::exists(path)) {
    auto old = base::ReadFile(path);
    if (!old.ok()) return old.status();
    text = KeepUntil(*old, step);
  }
  if (absl::Status s = base::WriteFileAtomic(path, text); !s.ok()) return s;
  file.reset(std::fopen(path.c_str(), "ae"));
  if (file == nullptr) return base::ErrnoStatus(errno, path.string());
  return absl::OkStatus();
}

absl::Status RunFolder::Append(const StepReport& report) {
  return AppendLine(metrics_.get(), ToJsonLine(report), path_);
}

absl::Status RunFolder::Append(const EvalReport& report) {
  return AppendLine(evals_.get(), ToJsonLine(report), path_);
}

}  // namespace mpsd::train
