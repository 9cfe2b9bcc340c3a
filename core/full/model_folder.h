// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

// The files other than weights in a model folder of Transformers. No file is
// copied through a link that leads out of the folder, except to the blobs of a
// Hugging Face cache: FailedPrecondition.
namespace mpsd::full {

struct ResultConfig {
  const spec::ModelConfig& config;
  spec::Task task;
  std::vector<std::string> label_names;  // by id
  std::string problem_type;
  at::ScalarType dtype;
};

// The class that Transformers loads: "BertForSequenceClassification".
std::string Architecture(const spec::ModelConfig& config, spec::Task task);

// FailedPrecondition if a file that a job over the model in `from` will copy is
// a link that leads out of the folder.
absl::Status CheckCopied(const std::filesystem::path& from);

// Writes `to`/config.json: that of `from` with the architecture, dtype, labels
// (id2label, label2id) and problem type of the result.
absl::Status WriteConfig(const std::filesystem::path& from,
                         const std::filesystem::path& to,
                         const ResultConfig& result);

// Copies the tokenizer's files and the chat templates that `from` has.
absl::Status CopyText(const std::filesystem::path& from,
                      const std::filesystem::path& to);

// Copies these, the generation config and the image processor.
absl::Status CopyTokenizer(const std::filesystem::path& from,
                           const std::filesystem::path& to);

}  // namespace mpsd::full
