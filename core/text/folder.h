// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::text {

// A model folder's text settings other than tokenizer.json, gathered from
// tokenizer_config.json, special_tokens_map.json, added_tokens.json,
// config.json and the template files as Transformers 5.24 gathers them
// (AutoTokenizer.from_pretrained, PreTrainedTokenizerBase._from_pretrained):
// the tokenizer's class, which model_type may override, gives the tokens that
// the files leave out, and may replace parts of tokenizer.json.
struct FolderText {
  // The named special tokens by attribute: "bos_token", "eos_token", … and the
  // model's own ("image_token"). The variables of its chat templates.
  std::map<std::string, std::string> special_tokens;
  // JSON for mpsd_text_tokenizer_new: the tokens to add to tokenizer.json's,
  // and what the class replaces in it (null for nothing).
  std::string added_tokens_json;
  std::string class_json = "null";
  // Why the folder's tokenizer is refused: its class is unknown here.
  std::string class_fault;
  // Its class gives pairs of texts tokens that are unknown here.
  bool single_texts = false;
  // Special tokens in a text are encoded like any other text.
  bool split_special_tokens = false;
  // Texts are truncated at the beginning: truncation_side "left". Absent: as
  // tokenizer.json says.
  std::optional<bool> truncate_left;
  // Sources by name: "default", "tool_use", ….
  std::map<std::string, std::string> chat_templates;
  // Tokens that overrides require of the tokenizer, with the override's name.
  std::map<std::string, std::string> asked_tokens;
};

// Every file is optional. InvalidArgument names the file, the field and the
// fault.
absl::StatusOr<FolderText> ReadFolderText(const std::string& dir);

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

// The same with the overrides; also InvalidArgument or
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
