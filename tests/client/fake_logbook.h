// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_
#define MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_

#include <grpcpp/server_context.h>

#include <map>
#include <string>
#include <vector>

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
                       v1::SearchRecordsResponse* response) override;
  Status GetRecord(Context*, const v1::GetRecordRequest* request,
                   v1::Record* response) override;
  Status AddNote(Context*, const v1::AddNoteRequest* request,
                 v1::Record* response) override;
  Status TagRecord(Context*, const v1::TagRecordRequest* request,
                   v1::Record* response) override;

 private:
  Status Failure(const std::string& method);

  absl::Mutex& mutex_;
  std::map<std::string, Status>& fail_;
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_LOGBOOK_H_
