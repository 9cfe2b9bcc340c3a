// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TEXT_FOLDER_H_
#define MPSD_CORE_TEXT_FOLDER_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd::text {

// A model folder's text settings other than tokenizer.json, gathered from
// tokenizer_config.json, special_tokens_map.json, added_tokens.json and the
// template files with the precedence of Transformers 5
// (PreTrainedTokenizerBase._from_pretrained). Defaults that exist only in
// Transformers' tokenizer classes are unknown here: a folder without a
// "bos_token" has no such token.
struct FolderText {
  // The named special tokens by attribute: "bos_token", "eos_token", … and the
  // model's own ("image_token"). The variables of its chat templates.
  std::map<std::string, std::string> special_tokens;
  // JSON for mpsd_text_tokenizer_new: the tokens to add to tokenizer.json's.
  std::string added_tokens_json;
  // Special tokens in a text are encoded like any other text.
  bool split_special_tokens = false;
  // Texts are truncated at the beginning: truncation_side "left".
  bool truncate_left = false;
  // Sources by name: "default", "tool_use", ….
  std::map<std::string, std::string> chat_templates;
  // Tokens that overrides require of the tokenizer, with the override's name.
  std::map<std::string, std::string> asked_tokens;
};

// Every file is optional. InvalidArgument names the file, the field and the
// fault.
absl::StatusOr<FolderText> ReadFolderText(const std::string& dir);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_FOLDER_H_
