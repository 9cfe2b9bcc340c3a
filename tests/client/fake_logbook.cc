// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_logbook.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/client/fake_failures.h"

namespace mpsd::client {

FakeLogbook::Status FakeLogbook::SearchRecords(
    Context*, const v1::SearchRecordsRequest* request,
    v1::SearchRecordsResponse* response) {
  absl::MutexLock lock(&mutex_);
  searched.push_back(*request);
  int at = 0;
  if (!absl::SimpleAtoi(request->page_token(), &at)) at = 0;
  const int asked = request->page_size() == 0 ? 50 : request->page_size();
  const int end = std::min<int>(at + std::min(asked, page),
                                static_cast<int>(records.size()));
  for (int i = at; i < end; ++i) *response->add_records() = records[i];
  if (end < static_cast<int>(records.size())) {
    response->set_next_page_token(absl::StrCat(end));
  }
  return Failure("SearchRecords");
}

FakeLogbook::Status FakeLogbook::GetRecord(Context*,
                                           const v1::GetRecordRequest* request,
                                           v1::Record* response) {
  absl::MutexLock lock(&mutex_);
  for (const v1::Record& record : records) {
    if (record.id() != request->id()) continue;
    *response = record;
    return Failure("GetRecord");
  }
  return {grpc::StatusCode::NOT_FOUND, "the logbook has no such record"};
}

FakeLogbook::Status FakeLogbook::AddNote(Context*,
                                         const v1::AddNoteRequest* request,
                                         v1::Record* response) {
  absl::MutexLock lock(&mutex_);
  noted.push_back(*request);
  response->set_id(request->id().empty() ? "01KAH0000000000000000000EE"
                                         : request->id());
  response->add_notes()->set_text(request->text());
  return Failure("AddNote");
}

FakeLogbook::Status FakeLogbook::TagRecord(Context*,
                                           const v1::TagRecordRequest* request,
                                           v1::Record* response) {
  absl::MutexLock lock(&mutex_);
  tagged.push_back(*request);
  response->set_id(request->id());
  *response->mutable_tags() = request->add();
  return Failure("TagRecord");
}

FakeLogbook::Status FakeLogbook::Failure(const std::string& method) {
  return FailureOf(fail_, method);
}

}  // namespace mpsd::client
