// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine_fault.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "core/base/file.h"

namespace mpsd::base {
namespace {

TEST(ErrnoOf, IsWhatTheStatusWasMadeOf) {
  const absl::Status full = ErrnoStatus(ENOSPC, "/out/weights");
  EXPECT_EQ(ErrnoOf(full), ENOSPC);
  const absl::StatusOr<int> handed_on = full;
  EXPECT_EQ(ErrnoOf(handed_on.status()), ENOSPC);
}

TEST(ErrnoOf, IsZeroWhateverATextSays) {
  EXPECT_EQ(ErrnoOf(absl::OkStatus()), 0);
  // A cell of somebody's data is quoted in such messages.
  EXPECT_EQ(ErrnoOf(absl::InvalidArgumentError(
                "train.csv:3: the label 'No space left on device'")),
            0);
}

TEST(IsMachineFault, TellsTheMachineFromTheJob) {
  for (int error : {ENOSPC, EDQUOT, EMFILE, ENFILE, EIO, EROFS}) {
    EXPECT_TRUE(IsMachineFault(error)) << error;
  }
  for (int error : {0, ENOENT, EACCES, EINVAL, EISDIR, ENOMEM, EPIPE}) {
    EXPECT_FALSE(IsMachineFault(error)) << error;
  }
}

TEST(IsMachineFault, AFileThatCannotBeReadKeepsItsErrno) {
  EXPECT_EQ(ErrnoOf(ReadFile("/no/such/file").status()), ENOENT);
  EXPECT_EQ(ErrnoOf(ReadFile("/").status()), EISDIR);
}

}  // namespace
}  // namespace mpsd::base
