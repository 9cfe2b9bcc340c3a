// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_SOME_RECORDS_H_
#define MPSD_TESTS_SERVER_RPC_SOME_RECORDS_H_

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/rpc/records.h"
#include "server/store/ended_jobs.h"
#include "server/store/job_store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/server/store/scratch.h"

namespace mpsd::rpc {

// The real records over the real store.
struct SomeRecords {
  // Writes the record of a deleted job of `owner`.
  void Put(const std::string& id, const std::string& owner) {
    jobs::Job job;
    job.id = id;
    job.owner = owner;
    job.name = "past " + id;
    job.state = jobs::State::kFailed;
    job.create_time = clock.Now();
    const v1::JobRecord record = records::MakeRecord({job, {}, {}, {}});
    const absl::Status put =
        past.Put(job, records::TextsOf(record), record.SerializeAsString());
    EXPECT_TRUE(put.ok()) << put;
  }

  store::Scratch scratch;
  std::unique_ptr<store::Database> database = store::OpenOrDie(scratch.file());
  jobs::JobStore jobs{*database};
  jobs::PastJobs past{*database};
  fakes::FakeClock clock;
  fakes::FakeJobFiles files;
  fakes::FakeExportedMetrics metrics;
  records::RunWatch watch{{}, metrics, clock};
  records::JobRecords records{{}, {past, jobs, files, watch, clock}};
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_SOME_RECORDS_H_
