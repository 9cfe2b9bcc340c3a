// SPDX-License-Identifier: Apache-2.0
#include "client/output_file.h"

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

class OutputFileTest : public ClientTest {
 protected:
  OutputFileTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddFile("result.json", "{}");
    AddFile("trace.json.gz", "first");
    data().download.emplace_back().set_data(" and more");
    data().download[2].mutable_file()->set_size_bytes(14);
    data().download[2].mutable_file()->set_sha256(
        base::Sha256Hex("first and more"));
    AddFile("zebra", "stripes");
  }

  void AddFile(const std::string& name, const std::string& bytes) {
    v1::DownloadResponse head =
        FileHead(name, static_cast<int64_t>(bytes.size()));
    head.mutable_file()->set_sha256(base::Sha256Hex(bytes));
    data().download.push_back(head);
    data().download.push_back(FileData(bytes));
  }

  ExitCode Fetch(const std::string& name = "trace.json.gz") {
    Connection connection(SocketAddress(), nullptr);
    out_.str("");
    err_.str("");
    const ExitCode code = FetchOutputFile(TestConsole(connection, out_, err_),
                                          kId, name, path_, "Look elsewhere.");
    daemon_->Sync();
    return code;
  }

  bool NothingWritten() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path() != socket_) return false;
    }
    return true;
  }

  const fs::path path_ = folder_ / "here.json.gz";
  std::ostringstream out_, err_;
};

TEST_F(OutputFileTest, TakesTheOneFile) {
  EXPECT_EQ(Fetch(), ExitCode::kOk) << err_.str();
  EXPECT_EQ(*base::ReadFile(path_), "first and more");
  ASSERT_EQ(data().downloaded.size(), 1u);
  EXPECT_EQ(data().downloaded[0].job_id(), kId);
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(OutputFileTest, AFileThatIsNotThereIsSaid) {
  EXPECT_EQ(Fetch("none"), ExitCode::kNotFound);
  EXPECT_THAT(err_.str(), HasSubstr("has no none"));
  EXPECT_THAT(err_.str(), HasSubstr("Look elsewhere."));
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, WhatArrivesBrokenIsNotKept) {
  data().download[2].mutable_file()->set_sha256(std::string(64, 'a'));
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  EXPECT_TRUE(NothingWritten());
  data().download[2].mutable_file()->set_sha256(
      base::Sha256Hex("first and more"));
  data().download[2].mutable_file()->set_size_bytes(15);
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, AFailedCallKeepsItsCode) {
  data().fail["Download"] =
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  EXPECT_EQ(Fetch(), ExitCode::kNotFound);
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, APlaceThatCannotBeWrittenAsksNobody) {
  Connection connection(SocketAddress(), nullptr);
  EXPECT_EQ(FetchOutputFile(TestConsole(connection, out_, err_), kId, "zebra",
                            folder_ / "none" / "zebra", ""),
            ExitCode::kBadInput);
  daemon_->Sync();
  EXPECT_TRUE(data().downloaded.empty());
}

TEST_F(OutputFileTest, APlaceIsLookedAtBeforehand) {
  EXPECT_TRUE(CheckOutputFile("--csv", "").ok());
  EXPECT_TRUE(CheckOutputFile("--csv", folder_ / "new.csv").ok());
  EXPECT_TRUE(CheckOutputFile("--csv", Write("old.csv", "1")).ok());
  EXPECT_TRUE(CheckOutputFile("--csv", "new.csv").ok()) << "in this folder";
  // Replacing a device would be a pity.
  for (const fs::path& place :
       {folder_, fs::path("/dev/full"), folder_ / "none/new.csv",
        folder_ / "old.csv/new.csv"}) {
    const absl::Status status = CheckOutputFile("--csv", place);
    EXPECT_FALSE(status.ok()) << place;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--csv: "));
  }
}

}  // namespace
}  // namespace mpsd::client
