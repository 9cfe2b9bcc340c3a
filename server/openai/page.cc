// SPDX-License-Identifier: Apache-2.0
#include "server/openai/page.h"

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::openai {
namespace {

constexpr std::string_view kMetadata = "metadata[";
constexpr size_t kAfterBytes = 128;
constexpr int kMostMetadata = 16;

absl::Status Fault(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status ReadEntry(const std::string& name, const std::string& value,
                       Page& page) {
  if (name == "limit") {
    if (!absl::SimpleAtoi(value, &page.limit) || page.limit < 1 ||
        page.limit > limits::kOpenAiPage) {
      return Fault(name, absl::StrCat("expected 1 to ", limits::kOpenAiPage));
    }
  } else if (name == "after") {
    if (value.size() > kAfterBytes) return Fault(name, "is no id");
    page.after = value;
  } else if (name == "order") {
    if (value != "asc" && value != "desc") {
      return Fault(name, "expected asc or desc");
    }
    page.oldest_first = value == "asc";
  } else if (name == "purpose") {
    page.purpose = value;
  } else if (std::string_view(name).starts_with(kMetadata) &&
             name.back() == ']' && page.metadata.size() < kMostMetadata) {
    page.metadata[name.substr(kMetadata.size(),
                              name.size() - kMetadata.size() - 1)] = value;
  } else {
    return Fault("query", absl::StrCat("'", base::Quotable(name),
                                       "' is no parameter here, or one too "
                                       "many"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Page> ReadPage(const http::Target& target) {
  Page page;
  for (const auto& [name, value] : target.query) {
    if (absl::Status s = ReadEntry(name, value, page); !s.ok()) return s;
  }
  return page;
}

}  // namespace mpsd::openai
