// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/logbook_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"
#include "server/logbook/make_record.h"
#include "server/logbook/record_query.h"

namespace mpsd::rpc {
namespace {

constexpr size_t kDigestDigits = 12;

// Whose records the caller sees: nullopt for everybody's. A caller without a
// name who sees own records alone sees none, since a record without an owner is
// nobody's.
struct Scope {
  std::optional<std::string> owner;
  bool nothing = false;
};
Scope ScopeOf(const access::Rights& rights) {
  if (!rights.sees_own_alone()) return {};
  return {rights.caller().user, rights.caller().user.empty()};
}

// "<number>.<digest>": the last record of the page.
std::string PageToken(int64_t number, const std::string& query,
                      const Scope& scope) {
  const std::string identity =
      absl::StrCat(number, "|", scope.owner.has_value(),
                   scope.owner.value_or(""), "|", query);
  return absl::StrCat(number, ".",
                      base::Sha256Hex(identity).substr(0, kDigestDigits));
}

absl::Status ReadPage(const v1::SearchRecordsRequest& request,
                      const Scope& scope, logbook::RecordSearch& search) {
  if (request.page_size() < 0 || request.page_size() > limits::kRecordPage) {
    return absl::InvalidArgumentError(absl::StrCat("page_size: must be 0 to ",
                                                   limits::kRecordPage, ", is ",
                                                   request.page_size()));
  }
  search.limit =
      request.page_size() == 0 ? limits::kDefaultPageSize : request.page_size();
  const std::string& token = request.page_token();
  if (token.empty()) return absl::OkStatus();
  int64_t number = 0;
  if (token.size() > limits::kPageTokenBytes ||
      !absl::SimpleAtoi(token.substr(0, token.find('.')), &number) ||
      token != PageToken(number, request.query(), scope)) {
    return absl::InvalidArgumentError(
        "page_token: is not one that SearchRecords gave for this query");
  }
  search.before = number;
  return absl::OkStatus();
}

absl::Status NoSuchRecord(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("the logbook has no record ", base::Quotable(id),
                   ": `mpsctl log` shows the latest; a job has one once it has "
                   "ended"));
}

// The whole id that `text` means.
absl::StatusOr<std::string> Resolve(logbook::Logbook& logbook,
                                    const Scope& scope,
                                    const std::string& text) {
  if (text.size() < limits::kIdPart || text.size() > limits::kWholeId ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isalnum)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: must be ", limits::kIdPart, " to ", limits::kWholeId,
        " letters and digits of a record's id, the first or the last ones"));
  }
  std::string part = absl::AsciiStrToUpper(text);
  if (part.size() == limits::kWholeId) return part;
  const absl::StatusOr<std::vector<std::string>> ids =
      logbook.store().FindByIdPart(part, scope.owner, limits::kFoundJobs);
  if (!ids.ok()) return ids.status();
  if (ids->empty()) return NoSuchRecord(text);
  if (ids->size() == 1) return ids->front();
  return absl::InvalidArgumentError(absl::StrCat(
      "id: ", text, " is a part of several: ", absl::StrJoin(*ids, ", ")));
}

// A record that the caller may read.
absl::StatusOr<logbook::StoredRecord> Find(logbook::Logbook& logbook,
                                           const access::Rights& rights,
                                           const std::string& text) {
  const Scope scope = ScopeOf(rights);
  if (scope.nothing) return NoSuchRecord(text);
  const absl::StatusOr<std::string> id = Resolve(logbook, scope, text);
  if (!id.ok()) return id.status();
  absl::StatusOr<logbook::StoredRecord> record = logbook.store().Get(*id);
  if (absl::IsNotFound(record.status())) {
    // The job may have ended a moment ago.
    if (absl::Status s = logbook.WriteRecord(*id); !s.ok()) return s;
    record = logbook.store().Get(*id);
  }
  if (absl::IsNotFound(record.status())) return NoSuchRecord(text);
  if (record.ok() && !rights.MayRead(record->owner)) return NoSuchRecord(text);
  return record;
}

absl::Status Answer(logbook::Logbook& logbook, const std::string& id,
                    v1::Record& response) {
  const absl::StatusOr<logbook::StoredRecord> record = logbook.store().Get(id);
  if (!record.ok()) return record.status();
  response = logbook::FromRow(*record);
  return absl::OkStatus();
}

absl::Status CheckNote(const std::string& text) {
  if (text.size() > limits::kRecordNoteBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: has ", text.size(), " bytes, at most ",
                     limits::kRecordNoteBytes, " are allowed"));
  }
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError("text: must not be empty");
  }
  if (!base::IsPrintable(text, base::Breaks::kKeep)) {
    return absl::InvalidArgumentError(
        "text: must not contain control characters but line breaks and tabs");
  }
  return absl::OkStatus();
}

template <typename Tags>
absl::StatusOr<std::vector<std::string>> CheckTags(const char* field,
                                                   const Tags& tags) {
  if (tags.size() > limits::kRecordTags) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has ", tags.size(), " tags, at most ",
                     limits::kRecordTags, " are allowed"));
  }
  std::vector<std::string> checked(tags.begin(), tags.end());
  for (size_t i = 0; i < checked.size(); ++i) {
    if (logbook::IsTag(checked[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, "[", i, "]: ", base::Quotable(checked[i]), ": must be 1 to ",
        limits::kRecordTagBytes, " letters, digits and ._-+/@"));
  }
  return checked;
}

}  // namespace

absl::Status SearchRecords(logbook::Logbook& logbook,
                           const access::Rights& rights,
                           const v1::SearchRecordsRequest& request,
                           absl::Time now,
                           v1::SearchRecordsResponse& response) {
  absl::StatusOr<logbook::RecordQuery> query =
      logbook::ParseRecordQuery(request.query(), now);
  if (!query.ok()) return query.status();
  const Scope scope = ScopeOf(rights);
  logbook::RecordSearch search;
  search.query = *std::move(query);
  search.owner = scope.owner;
  search.bytes = limits::kPageBytes;
  absl::Status page = ReadPage(request, scope, search);
  if (!page.ok()) return page;
  if (scope.nothing) return absl::OkStatus();
  const int page_size = search.limit;
  ++search.limit;  // one more tells whether there is a next page
  const absl::StatusOr<std::vector<logbook::StoredRecord>> found =
      logbook.store().Search(search);
  if (!found.ok()) return found.status();
  size_t bytes = 0;
  for (size_t i = 0; i < found->size(); ++i) {
    if (static_cast<int>(i) == page_size) break;
    v1::Record& record = *response.add_records();
    record = logbook::FromRow((*found)[i]);
    bytes += record.ByteSizeLong();
  }
  const bool more =
      static_cast<int>(found->size()) > page_size || bytes > limits::kPageBytes;
  if (more) {
    const int64_t last = response.records().rbegin()->number();
    response.set_next_page_token(PageToken(last, request.query(), scope));
  }
  return absl::OkStatus();
}

absl::Status GetRecord(logbook::Logbook& logbook, const access::Rights& rights,
                       const v1::GetRecordRequest& request,
                       v1::Record& response) {
  const absl::StatusOr<logbook::StoredRecord> record =
      Find(logbook, rights, request.id());
  if (!record.ok()) return record.status();
  response = logbook::FromRow(*record);
  return absl::OkStatus();
}

absl::Status AddNote(logbook::Logbook& logbook, const access::Rights& rights,
                     const v1::AddNoteRequest& request, v1::Record& response) {
  if (absl::Status s = CheckNote(request.text()); !s.ok()) return s;
  const std::string& author = rights.caller().user;
  std::string id;
  if (request.id().empty()) {
    const absl::StatusOr<std::string> entry =
        logbook.AddEntry(author, request.text(), request.rejected());
    if (!entry.ok()) return entry.status();
    id = *entry;
  } else {
    const absl::StatusOr<logbook::StoredRecord> record =
        Find(logbook, rights, request.id());
    if (!record.ok()) return record.status();
    id = record->id;
    absl::Status added =
        logbook.AddNote(id, author, request.text(), request.rejected());
    if (!added.ok()) return added;
  }
  return Answer(logbook, id, response);
}

absl::Status TagRecord(logbook::Logbook& logbook, const access::Rights& rights,
                       const v1::TagRecordRequest& request,
                       v1::Record& response) {
  const auto add = CheckTags("add", request.add());
  if (!add.ok()) return add.status();
  const auto remove = CheckTags("remove", request.remove());
  if (!remove.ok()) return remove.status();
  if (add->empty() && remove->empty()) {
    return absl::InvalidArgumentError(
        "add: name a tag to add or one to remove");
  }
  const absl::StatusOr<logbook::StoredRecord> record =
      Find(logbook, rights, request.id());
  if (!record.ok()) return record.status();
  if (!rights.MayChange(record->owner)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "record ", record->id, " is ", base::Quotable(record->owner),
        "'s: only its owner or an admin may tag it; anybody may add a note"));
  }
  absl::Status tagged = logbook.store().Tag(record->id, *add, *remove);
  if (!tagged.ok()) return tagged;
  return Answer(logbook, record->id, response);
}

}  // namespace mpsd::rpc
