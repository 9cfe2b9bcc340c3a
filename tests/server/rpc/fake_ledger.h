// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/store/user_ledger.h"
#include "tests/fakes/test_store.h"

namespace mpsd::rpc {

struct LedgerStore {
  fakes::TestStore db;
};

// The ledger in memory, beside blobs that are elsewhere. Each job has a folder
// of seven bytes.
class FakeLedger : public LedgerStore, public jobs::UserLedger {
 public:
  FakeLedger()
      : UserLedger(db.database(), [](const std::string&) { return 7; }) {}

  // A blob that can count for users.
  void Store(const std::string& sha256, int64_t bytes = 0) {
    db.Execute(absl::StrCat("INSERT OR IGNORE INTO blobs VALUES ('", sha256,
                            "', ", bytes, ", 0)"));
  }
  void Send(const std::string& user, const std::string& sha256,
            int64_t bytes = 0) {
    Store(sha256, bytes);
    EXPECT_TRUE(Use(user, nullptr, {sha256}).ok());
  }
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
