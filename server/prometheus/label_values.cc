// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/label_values.h"

#include "core/base/printable.h"

namespace mpsd::prometheus {

std::string SnakeCase(std::string_view name) {
  std::string text;
  char before = '_';
  for (char c : name) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (is_capital && before >= 'a' && before <= 'z') text += '_';
    text += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
    before = c;
  }
  return text;
}

std::string BoundedLabel(std::string_view text) {
  return base::Shortened(base::Printable(text), kLabelBytes);
}

std::string LabelCap::Of(const std::string& value) {
  if (known_.contains(value)) return value;
  if (known_.size() >= most_) return kOther;
  known_.insert(value);
  return value;
}

}  // namespace mpsd::prometheus
