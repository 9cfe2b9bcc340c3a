// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_events.h"

#include <algorithm>
#include <iterator>

namespace mpsd::run_page {

namespace {

constexpr int64_t kMostBytes = 1 << 20;         // of a file that is kept whole
constexpr int64_t kPredictionBytes = 64 << 10;  // of the predictions

struct WantedFile {
  const char* name;
  bool cut;  // the first whole lines are enough
};
constexpr WantedFile kWanted[] = {{"run.json", false},
                                  {"confusion_matrix.json", false},
                                  {"predictions.jsonl", true}};

}  // namespace

bool FilePicker::Begin(const std::string& path, int64_t size_bytes) {
  Cut();
  text_ = nullptr;
  const auto* wanted =
      std::find_if(std::begin(kWanted), std::end(kWanted),
                   [&](const WantedFile& one) { return path == one.name; });
  if (wanted == std::end(kWanted)) return false;
  if (!wanted->cut && size_bytes > kMostBytes) return false;
  name_ = path;
  text_ = &files_[name_];
  limit_ = wanted->cut ? kPredictionBytes : kMostBytes;
  return true;
}

bool FilePicker::Append(std::string_view data) {
  if (text_ == nullptr) return false;
  text_->append(data);
  return static_cast<int64_t>(text_->size()) < limit_;
}

void FilePicker::Cut() {
  if (text_ == nullptr || static_cast<int64_t>(text_->size()) <= limit_) {
    return;
  }
  text_->resize(static_cast<size_t>(limit_));
  text_->erase(text_->rfind('\n') + 1);  // npos + 1 is 0
}

void FilePicker::Drop() {
  if (text_ != nullptr) files_.erase(name_);
  text_ = nullptr;
}

}  // namespace mpsd::run_page
