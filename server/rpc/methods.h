// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/scheduler.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/daemon_calls.h"
#include "server/rpc/gate.h"
#include "server/rpc/hosts.h"
#include "server/rpc/method_table.h"
#include "server/rpc/server.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {

// The threads on which calls run. Slow kinds have threads of their own.
struct Hosts {
  explicit Hosts(const Options& options);

  Barrier barrier;       // of all of them
  CallHost reads;        // calls that have no host below
  CallHost lists;        // List, which may look at everything
  CallHost model_lists;  // ListModels, which may read every model's files
  CallHost changes;      // Cancel, Hold …, which wait for the store
  CallHost submits;      // Submit, which works on the disk
  CallHost deletions;    // Delete … and Retry, likewise
  CallHost models;       // Push and RemoveModel, likewise
  CallHost collections;  // Collect
  CallHost diagnoses;    // Diagnose, which takes seconds
  StreamHost streams;
  StreamHost downloads;
  StreamHost uploads;
};

// What the methods work on. What it refers to must outlive the table.
struct Backend {
  const Options& options;
  jobs::Scheduler& scheduler;
  jobs::JobReader& reader;
  store::BlobStore& blobs;
  const Gate& gate;
  const UserAccounts& accounts;
  DaemonFacts facts;
  // Returns when the certificate of the TLS addresses expires; nullopt where
  // there is none. Called on any thread.
  std::function<std::optional<absl::Time>()> certificate_expiry;
};

// Adds a row for each method of mpsd.v1. `on` and `with` must outlive the
// table.
void AddMethods(Hosts& on, const Backend& with, MethodTable& table);

}  // namespace mpsd::rpc
