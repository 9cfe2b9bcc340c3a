// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_
#define MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_

#include <grpcpp/server_context.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "mpsd/v1/logbook.grpc.pb.h"

namespace mpsd::client {

// The LogbookService of a FakeDaemon, out of plain data.
class FakeLogbook final : public v1::LogbookService::Service {
 public:
  using Context = grpc::ServerContext;
  using Status = grpc::Status;

  // The daemon's own: its lock, what its methods end with.
  FakeLogbook(absl::Mutex& mutex, std::map<std::string, Status>& fail)
      : mutex_(mutex), fail_(fail) {}

  std::vector<v1::Record> records;  // the latest first
  int page = 1000;                  // records of a page, whatever is asked for
  std::vector<v1::SearchRecordsRequest> searched;
  std::vector<v1::AddNoteRequest> noted;
  std::vector<v1::TagRecordRequest> tagged;

  Status SearchRecords(Context*, const v1::SearchRecordsRequest* request,
                       v1::SearchRecordsResponse* response) override {
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
  Status GetRecord(Context*, const v1::GetRecordRequest* request,
                   v1::Record* response) override {
    absl::MutexLock lock(&mutex_);
    for (const v1::Record& record : records) {
      if (record.id() != request->id()) continue;
      *response = record;
      return Failure("GetRecord");
    }
    return {grpc::StatusCode::NOT_FOUND, "the logbook has no such record"};
  }
  Status AddNote(Context*, const v1::AddNoteRequest* request,
                 v1::Record* response) override {
    absl::MutexLock lock(&mutex_);
    noted.push_back(*request);
    response->set_id(request->id().empty() ? "01KAH0000000000000000000EE"
                                           : request->id());
    response->add_notes()->set_text(request->text());
    return Failure("AddNote");
  }
  Status TagRecord(Context*, const v1::TagRecordRequest* request,
                   v1::Record* response) override {
    absl::MutexLock lock(&mutex_);
    tagged.push_back(*request);
    response->set_id(request->id());
    *response->mutable_tags() = request->add();
    return Failure("TagRecord");
  }

 private:
  Status Failure(const std::string& method) {
    const auto it = fail_.find(method);
    return it == fail_.end() ? Status::OK : it->second;
  }

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_
