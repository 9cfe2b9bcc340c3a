// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "core/spec/train_spec.h"

// README.md of a result: the Hub's metadata as YAML, then Markdown.
namespace mpsd::full {

inline constexpr char kModelCard[] = "README.md";

// What loads a result.
enum class CardLibrary { kPeft, kTransformers, kGguf, kMlx };

struct ModelCard {
  spec::Task task = spec::Task::kCausalLm;
  CardLibrary library = CardLibrary::kPeft;
  std::string base;       // a Hub id, or the path of a folder
  std::string license;    // LicenseOf; "": unknown
  std::string tag;        // "lora", "full", "head"
  int64_t labels = 0;     // of a classifier
  std::string body = {};  // Markdown, before how to load the result
};

// The license that the metadata of `folder`/README.md name ("apache-2.0"); ""
// if they name none, or not by a word.
std::string LicenseOf(const std::filesystem::path& folder);

// The whole file. Equal cards give equal bytes.
std::string CardText(const ModelCard& card);

// Writes into `to` the card of the result in `from`, now loaded by `library`.
// Writes nothing if `from` has no file of CardText.
absl::Status ConvertCard(const std::filesystem::path& from,
                         const std::filesystem::path& to, CardLibrary library);

}  // namespace mpsd::full
