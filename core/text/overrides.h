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

// What takes the place of what a folder says. The fields are job.json's, in
// training; empty ones change nothing.
struct TextOverrides {
  // A .jinja or .j2 file; or a folder, whose default template and eos_token are
  // taken, and whose tokens that stand in the template are asked for.
  std::string chat_template_path = "";
  std::string eos_token = "";

  bool empty() const { return chat_template_path.empty() && eos_token.empty(); }
};

// As the other of this name, and InvalidArgument or NotFound for the overrides.
absl::StatusOr<FolderText> ReadFolderText(const std::string& dir,
                                          const TextOverrides& overrides);

// SHA-256 of what ReadFolderText takes of the overrides; "" for empty ones.
absl::StatusOr<std::string> OverridesId(const std::string& dir,
                                        const TextOverrides& overrides);

// Writes the overrides into `folder`, which holds copies of the files of the
// model folder `dir`: chat_template.jinja in the place of all templates, and
// the end token of tokenizer_config.json and special_tokens_map.json. `eos_id`
// is its id, absent where there is none: where there are a config.json and a
// generation_config.json they get it, the second before those that it has.
absl::Status WriteOverrides(const std::string& dir,
                            const TextOverrides& overrides,
                            std::optional<int32_t> eos_id,
                            const std::filesystem::path& folder);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_OVERRIDES_H_
