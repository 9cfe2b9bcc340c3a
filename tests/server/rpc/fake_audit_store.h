// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_STORE_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_STORE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "server/access/audit_trail.h"

namespace mpsd::rpc {

// Has the numbers 1 to `size`, and notes the filter.
class FakeAuditStore final : public access::AuditStore {
 public:
  explicit FakeAuditStore(int64_t size) : size_(size) {}
  absl::StatusOr<int64_t> Append(const access::AuditEntry&) override {
    return 0;
  }
  absl::Status SetResult(int64_t, const absl::Status&,
                         const std::string&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Prune(absl::Time, int64_t) override { return 0; }
  absl::StatusOr<std::vector<access::AuditEntry>> List(
      const access::AuditFilter& filter) override {
    filter_ = filter;
    std::vector<access::AuditEntry> entries;
    for (int64_t i = std::min(size_, filter.before - 1);
         i > 0 && static_cast<int>(entries.size()) < filter.limit; --i) {
      access::AuditEntry& entry = entries.emplace_back(entry_);
      entry.number = i;
    }
    return entries;
  }
  access::AuditEntry entry_;
  access::AuditFilter filter_;

 private:
  const int64_t size_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_AUDIT_STORE_H_
