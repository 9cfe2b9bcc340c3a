// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TEXT_OVERRIDES_H_
#define MPSD_CORE_TEXT_OVERRIDES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/text/folder.h"

namespace mpsd::text {

// Replacements for a folder's settings, named as in job.json's "training";
// empty ones change nothing.
struct TextOverrides {
  // A .jinja or .j2 file; or a folder, from which the default template and
  // eos_token are taken; the tokenizer must have the folder's tokens that occur
  // in this template.
  std::string chat_template_path = "";
  std::string eos_token = "";

  bool empty() const { return chat_template_path.empty() && eos_token.empty(); }
};

// ReadFolderText of folder.h with the overrides; also InvalidArgument or
// NotFound for faults in them.
absl::StatusOr<FolderText> ReadFolderText(const std::string& dir,
                                          const TextOverrides& overrides);

// SHA-256 of the templates and tokens that ReadFolderText makes of the
// overrides; "" for empty ones.
absl::StatusOr<std::string> OverridesId(const std::string& dir,
                                        const TextOverrides& overrides);

// Writes the overrides into `folder`, which has copies of the files of the
// model folder `dir`: chat_template.jinja in place of all templates, and the
// end token of tokenizer_config.json and special_tokens_map.json. `eos_id` is
// the end token's id, absent without an end token. Existing files config.json
// and generation_config.json get the id; generation_config.json has it before
// its other end ids.
absl::Status WriteOverrides(const std::string& dir,
                            const TextOverrides& overrides,
                            std::optional<int32_t> eos_id,
                            const std::filesystem::path& folder);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_OVERRIDES_H_
