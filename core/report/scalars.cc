// SPDX-License-Identifier: Apache-2.0
#include "core/report/scalars.h"

#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace mpsd::tensorboard {
namespace {

// Collects the numbers of a field list.
class Collector {
 public:
  Collector(std::string group, Scalars& out)
      : group_(std::move(group)), out_(out) {}

  void operator()(const char* name, double value) {
    const std::string_view field = name;
    out_.emplace_back(
        absl::StrCat(group_, field == "seconds" ? "step_seconds" : name),
        value);
  }
  void operator()(const char* name, int64_t value) {
    const std::string_view field = name;
    // The step is every curve's axis. The counts of tokens are those of the
    // data; their rate is a curve.
    if (field == "step" || field == "total_steps" ||
        field.ends_with("tokens")) {
      return;
    }
    (*this)(name, static_cast<double>(value));
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  void operator()(const char*, const report::MemoryCounters& value) {
    Collector memory("memory/", out_);
    Fields(memory, value, &value);
  }
  // Fields that are not curves.
  void operator()(const char*, const std::string&) {}
  void operator()(const char*, const report::Counts&) {}

 private:
  const std::string group_;
  Scalars& out_;
};

}  // namespace

Scalars ScalarsOf(const report::Progress& progress) {
  Scalars scalars;
  Collector collector("train/", scalars);
  Fields(collector, progress, &progress);
  if (progress.seconds > 0) {
    scalars.emplace_back(
        "train/tokens_per_second",
        static_cast<double>(progress.tokens) / progress.seconds);
  }
  return scalars;
}

Scalars ScalarsOf(const report::Evaluated& evaluated) {
  Scalars scalars = {{"eval/loss", evaluated.eval_loss},
                     {"eval/seconds", evaluated.seconds}};
  for (const auto& [name, value] : evaluated.metrics) {
    scalars.emplace_back(absl::StrCat("eval/", name), value);
  }
  return scalars;
}

}  // namespace mpsd::tensorboard
