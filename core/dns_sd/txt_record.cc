// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/txt_record.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace mpsd::dns_sd {
namespace {

constexpr size_t kLongestEntry = 255;
constexpr int kMostEntries = 32;

}  // namespace

std::string EncodeTxt(const TxtRecord& record) {
  std::string bytes;
  for (const auto& [key, value] : record) {
    const std::string entry = absl::StrCat(key, "=", value);
    if (entry.size() > kLongestEntry) continue;
    bytes.push_back(static_cast<char>(entry.size()));
    bytes.append(entry);
  }
  return bytes;
}

TxtRecord DecodeTxt(std::string_view bytes) {
  TxtRecord record;
  for (int i = 0; i < kMostEntries && !bytes.empty(); ++i) {
    const size_t length = static_cast<unsigned char>(bytes[0]);
    if (length >= bytes.size()) break;
    const std::string_view entry = bytes.substr(1, length);
    bytes.remove_prefix(1 + length);
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    // The first entry of a key counts.
    record.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return record;
}

}  // namespace mpsd::dns_sd
