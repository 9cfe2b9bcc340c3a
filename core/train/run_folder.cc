// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/report/report_json.h"
#include "core/report/scalars.h"

namespace mpsd::train {
namespace {

using report::Json;

constexpr char kMetrics[] = "metrics.jsonl";
constexpr char kEvals[] = "eval.jsonl";

// The lines of steps up to `step`. Drops a last line truncated by a crash.
std::string KeepUntil(std::string_view text, int64_t step) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const Json object = Json::parse(line, nullptr, false);
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

// Moves the member `name`, if there is one, right after the member `other`; to
// the front if there is no `other`.
Json Moved(const Json& object, const std::string& name,
           const std::string& other) {
  const auto member = object.find(name);
  if (member == object.end()) return object;
  Json moved = Json::object();
  if (!object.contains(other)) moved[name] = *member;
  for (const auto& [key, value] : object.items()) {
    if (key != name) moved[key] = value;
    if (key == other) moved[name] = *member;
  }
  return moved;
}

// With the names of Transformers' own log.
class EvalWriter : public report::JsonWriter {
 public:
  using JsonWriter::JsonWriter;
  using JsonWriter::operator();

  void operator()(const char*, const report::Metrics& metrics) {
    for (const auto& [name, value] : metrics) {
      (*this)(("eval_" + name).c_str(), value);
    }
  }
};

}  // namespace

std::string ToJsonLine(const report::Progress& progress) {
  Json line = Json::object();
  report::JsonWriter writer(line);
  Fields(writer, progress, &progress);
  line["memory"] =
      Moved(line["memory"], "peak_allocated_bytes", "current_allocated_bytes");
  return report::Dump(Moved(line, "padded_tokens", "tokens"));
}

std::string ToJsonLine(const report::Evaluated& evaluated) {
  Json line = Json::object();
  EvalWriter writer(line);
  Fields(writer, evaluated, &evaluated);
  return report::Dump(line);
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
  // A run that starts over evaluates step 0 again.
  auto curves = tensorboard::EventFile::Create(
      path / "runs", step == 0 ? 0 : step + 1, base::Clock::Real());
  folder->curves_status_ = curves.status();
  if (curves.ok()) folder->curves_ = *std::move(curves);
  return folder;
}

absl::Status RunFolder::OpenLog(const std::string& name, int64_t step,
                                File& file) {
  const std::filesystem::path path = path_ / name;
  std::string text;
  if (std::filesystem::exists(path)) {
    ASSIGN_OR_RETURN(auto old, base::ReadFile(path));
    text = KeepUntil(old, step);
  }
  RETURN_IF_ERROR(base::WriteFileAtomic(path, text));
  file.reset(std::fopen(path.c_str(), "ae"));
  if (file == nullptr) return base::ErrnoStatus(errno, path.string());
  return absl::OkStatus();
}

absl::Status RunFolder::Append(const report::Progress& progress) {
  if (curves_) curves_->Add(progress.step, tensorboard::ScalarsOf(progress));
  return AppendLine(metrics_.get(), ToJsonLine(progress), path_);
}

absl::Status RunFolder::Append(const report::Evaluated& evaluated) {
  if (curves_) curves_->Add(evaluated.step, tensorboard::ScalarsOf(evaluated));
  return AppendLine(evals_.get(), ToJsonLine(evaluated), path_);
}

}  // namespace mpsd::train
