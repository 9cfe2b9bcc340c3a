// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_LOGBOOK_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_LOGBOOK_H_

#include <string>

#include "server/logbook/logbook.h"
#include "server/logbook/make_record.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_job_store.h"
#include "tests/server/logbook/fake_record_store.h"

namespace mpsd::rpc {

// The real logbook over stores in memory.
struct FakeLogbook {
  // Writes the record of a job of `owner`.
  void Put(const std::string& id, const std::string& owner) {
    v1::Record record = logbook::MakeEntry(id, owner, clock.Now());
    record.set_kind(v1::JOB_KIND_TRAINING);
    static_cast<void>(store.Put(logbook::ToRow(record), 0));
  }

  fakes::FakeClock clock;
  fakes::FakeJobStore jobs;
  fakes::FakeJobFiles files;
  fakes::FakeExportedMetrics metrics;
  logbook::RunWatch watch{{}, metrics, clock};
  logbook::FakeRecordStore store;
  logbook::Logbook logbook{{}, {store, jobs, files, watch, clock}};
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_LOGBOOK_H_
