// SPDX-License-Identifier: Apache-2.0
// The contract of processes.h, whichever system implements it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "core/host/processes.h"

namespace mpsd::host {
namespace {

const Process* Find(const std::vector<Process>& all, int64_t pid) {
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const Process& process) { return process.pid == pid; });
  return found == all.end() ? nullptr : &*found;
}

TEST(ListProcesses, HasThisOneWithItsParentNameAndMemory) {
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  const std::vector<Process> all = ListProcesses();
  const Process* self = Find(all, getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->parent, getppid());
  EXPECT_NE(self->name, "");
  EXPECT_GE(self->memory_bytes.value_or(0), static_cast<int64_t>(kBytes));
  EXPECT_EQ(memory[kBytes - 1], 1);
}

// A name of any bytes is handed on as it is: who shows it escapes it.
TEST(ListProcesses, GoesOnAfterAProcessThatHasEnded) {
  EXPECT_EQ(Find(ListProcesses(), 0), nullptr);
  EXPECT_GE(ListProcesses().size(), 1u);
}

TEST(GpuUsers, AreToldOrNot) {
  const auto users = ListGpuUsers();
  if (!users) GTEST_SKIP() << "no GPU here, or not told";
  EXPECT_THAT(*users, testing::Not(testing::Contains(getpid())));
}

}  // namespace
}  // namespace mpsd::host
