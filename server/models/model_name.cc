// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::models {
namespace {

bool IsOfName(char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
}

bool IsName(const std::string& text) {
  return std::all_of(text.begin(), text.end(), IsOfName);
}

absl::Status Wrong(const std::string& field, const std::string& value,
                   const std::string& expected) {
  // What is too long to be a name may be anything.
  const std::string shown =
      base::Quotable(value.substr(0, limits::kModelIdBytes));
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", shown, "' is none: ", expected));
}

}  // namespace

absl::Status CheckModelName(const std::string& field, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  // "..", ".hidden" and "-option" are no names, on neither side of the slash;
  // a folder's name has "--" for the slash (spec::RepositoryName).
  const bool valid =
      name.size() <= limits::kModelIdBytes && parts.size() <= 2 &&
      name.find("--") == std::string::npos &&
      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        return !part.empty() && absl::ascii_isalnum(part.front()) &&
               IsName(part);
      });
  if (valid) return absl::OkStatus();
  return Wrong(field, name,
               absl::StrCat("a model's name is NAME or ORG/NAME, at most ",
                            limits::kModelIdBytes,
                            " letters, digits, '.', '_' and '-', each part "
                            "beginning with a letter or a digit, without "
                            "'--'"));
}

absl::Status CheckRevision(const std::string& field,
                           const std::string& revision) {
  const std::vector<std::string> parts = absl::StrSplit(revision, '/');
  const bool valid =
      revision.size() <= limits::kModelIdBytes &&
      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        return !part.empty() && part.front() != '.' && IsName(part);
      });
  if (valid) return absl::OkStatus();
  return Wrong(field, revision,
               absl::StrCat("a revision is a branch, a tag or a commit, at "
                            "most ",
                            limits::kModelIdBytes,
                            " letters, digits, '.', '_', '-' and '/'"));
}

std::string FoldedName(const std::string& name) {
  return absl::AsciiStrToLower(name);
}

}  // namespace mpsd::models
