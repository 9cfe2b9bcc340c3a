// SPDX-License-Identifier: Apache-2.0
#include "core/model/load_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mpsd::model {
namespace {

constexpr size_t kShown = 8;
constexpr char kUntied[] =
    "config.json says tie_word_embeddings, but the file's lm_head.weight is "
    "not its embedding: the two are not tied, as in Transformers 5";

std::string FirstNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) {
    absl::StrAppend(&text, " and ", names.size() - kShown, " more");
  }
  return text;
}

}  // namespace

std::vector<std::string> Warnings(const LoadReport& report) {
  std::vector<std::string> warnings;
  if (!report.unused.empty()) {
    warnings.push_back(absl::StrCat(
        "the model's file has ", report.unused.size(),
        " tensors that the network does not: ", FirstNames(report.unused)));
  }
  if (!report.missing.empty()) {
    warnings.push_back(
        absl::StrCat("the model's file lacks ", report.missing.size(),
                     " tensors of the network, which are drawn at random: ",
                     FirstNames(report.missing)));
  }
  if (report.untied) warnings.emplace_back(kUntied);
  return warnings;
}

// transformers 5.23, modeling_utils.py, _adjust_missing_and_unexpected_keys.
bool IsOldBuffer(std::string_view name, spec::Family family) {
  constexpr std::string_view kPositions = ".position_ids";
  switch (family) {
    case spec::Family::kDecoder:
      return name.find("rotary_emb.inv_freq") != std::string_view::npos;
    case spec::Family::kEncoder:
      return name == kPositions.substr(1) || name.ends_with(kPositions);
    case spec::Family::kVision:
      break;
  }
  return false;
}

}  // namespace mpsd::model
