// SPDX-License-Identifier: Apache-2.0
#include "core/base/work_count.h"

#include <atomic>

namespace mpsd::base {
namespace {

std::atomic<int64_t> g_work{0};

}  // namespace

// Relaxed: the count orders nothing; readers only check whether it grew.
void CountWork() { g_work.fetch_add(1, std::memory_order_relaxed); }

int64_t WorkCount() { return g_work.load(std::memory_order_relaxed); }

}  // namespace mpsd::base
