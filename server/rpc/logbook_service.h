// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LOGBOOK_SERVICE_H_
#define MPSD_SERVER_RPC_LOGBOOK_SERVICE_H_

#include "mpsd/v1/logbook.grpc.pb.h"
#include "server/logbook/logbook.h"
#include "server/rpc/gate.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// mpsd.v1.LogbookService. The borrowed objects must outlive the service.
class LogbookService final : public v1::LogbookService::CallbackService {
 public:
  // `searches`: the thread of SearchRecords; `changes`: those for
  // calls that wait for the store.
  LogbookService(const Gate& gate, logbook::Logbook& logbook, CallHost& reads,
                 CallHost& searches, CallHost& changes)
      : gate_(gate),
        logbook_(logbook),
        reads_(reads),
        searches_(searches),
        changes_(changes) {}

  grpc::ServerUnaryReactor* SearchRecords(
      grpc::CallbackServerContext* context,
      const v1::SearchRecordsRequest* request,
      v1::SearchRecordsResponse* response) override;
  grpc::ServerUnaryReactor* GetRecord(grpc::CallbackServerContext* context,
                                      const v1::GetRecordRequest* request,
                                      v1::Record* response) override;
  grpc::ServerUnaryReactor* AddNote(grpc::CallbackServerContext* context,
                                    const v1::AddNoteRequest* request,
                                    v1::Record* response) override;
  grpc::ServerUnaryReactor* TagRecord(grpc::CallbackServerContext* context,
                                      const v1::TagRecordRequest* request,
                                      v1::Record* response) override;

 private:
  const Gate& gate_;
  logbook::Logbook& logbook_;
  CallHost& reads_;
  CallHost& searches_;
  CallHost& changes_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LOGBOOK_SERVICE_H_
