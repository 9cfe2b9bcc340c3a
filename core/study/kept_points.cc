// SPDX-License-Identifier: Apache-2.0
#include "core/study/kept_points.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/small_file.h"

namespace mpsd::study {
namespace {

using nlohmann::json;

constexpr size_t kLargestFile = 8 << 20;

int64_t NumberIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : 0;
}

}  // namespace

KeptPoints KeptPoints::Read(std::filesystem::path file, std::string key) {
  KeptPoints kept(std::move(file), std::move(key));
  const auto text = base::ReadSmallFile(kept.file_, kLargestFile);
  if (!text.ok()) return kept;
  std::vector<json> lines;
  for (const auto& line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    json object = base::ParseTree<json>(std::string(line));
    if (!object.is_object()) return kept;
    lines.push_back(std::move(object));
  }
  if (lines.empty() || !lines.front().contains("key") ||
      lines.front()["key"] != kept.key_) {
    return kept;
  }
  kept.begun_ = NumberIn(lines.front(), "begun");
  kept.ends_ = NumberIn(lines.front(), "ends") + (kept.begun_ > 0 ? 1 : 0);
  kept.points_.assign(lines.begin() + 1, lines.end());
  return kept;
}

int64_t KeptPoints::Ends(int64_t number) const {
  return number == begun_ ? ends_ : 0;
}

absl::Status KeptPoints::Begin(int64_t number) {
  ends_ = Ends(number);
  begun_ = number;
  return Write();
}

absl::Status KeptPoints::Abandon() {
  // Reading counts an open point as ended once more.
  if (ends_ > 0) {
    --ends_;
  } else {
    begun_ = 0;
  }
  return Write();
}

absl::Status KeptPoints::Add(json point) {
  points_.push_back(std::move(point));
  begun_ = ends_ = 0;
  return Write();
}

absl::Status KeptPoints::Write() const {
  json head = {{"key", key_}};
  if (begun_ > 0) {
    head["begun"] = begun_;
    head["ends"] = ends_;
  }
  std::string text = head.dump() + "\n";
  for (const json& point : points_) absl::StrAppend(&text, point.dump(), "\n");
  return base::WriteFileAtomic(file_, text);
}

}  // namespace mpsd::study
