// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_LANGUAGE_ROW_FORMAT_H_
#define MPSD_CORE_DATA_LANGUAGE_ROW_FORMAT_H_

#include <string>

namespace mpsd::data {

// The columns that contain a row's parts: fields of job.json's "dataset". "" is
// the default.
struct LanguageRowFormat {
  std::string messages_column = "";
  std::string prompt_column = "", completion_column = "";
  std::string text_column = "";
  std::string format = "";  // "alpaca" or "alpaca_chat"

  bool operator==(const LanguageRowFormat&) const = default;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_LANGUAGE_ROW_FORMAT_H_
