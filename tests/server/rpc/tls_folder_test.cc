// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/made.h"

namespace mpsd::pki {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);

class TlsFolderTest : public testing::Test {
 protected:
  ServerOrder Order() const {
    return {
        .names = {}, .machine = {"studio", {"192.168.1.20"}}, .now = Noon()};
  }
  void Make() {
    const auto made = Init(state_dir_, Order());
    ASSERT_TRUE(made.ok()) << made.status();
  }
  std::vector<std::string> ProblemsAt(absl::Time now) const {
    const auto state = Look(state_dir_, now);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? state->problems : std::vector<std::string>{};
  }
  std::string Verified(const fs::path& certificate,
                       const std::string& options) const {
    return Said("openssl verify -x509_strict -attime 1800000000 -CAfile '" +
                files_.authority.string() + "' " + options + " '" +
                certificate.string() + "'");
  }

  const fs::path state_dir_ = testing_support::FreshFolder("tls_folder");
  const TlsFiles files_ = FilesOf(state_dir_);
};

int ModeOf(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(TlsFolderTest, MakesWhatOpensslTakes) {
  const mode_t mask = umask(0);
  const auto made = Init(state_dir_, Order());
  umask(mask);
  ASSERT_TRUE(made.ok()) << made.status();
  // Nobody else reads the keys.
  EXPECT_EQ(ModeOf(files_.folder), 0700);
  EXPECT_EQ(ModeOf(files_.authority_key), 0600);
  EXPECT_EQ(ModeOf(files_.server_key), 0600);
  EXPECT_THAT(made->state.problems, IsEmpty());
  EXPECT_EQ(made->former, "");
  EXPECT_THAT(made->state.server.names,
              ElementsAre("studio", "studio.local", "localhost", "127.0.0.1",
                          "::1", "192.168.1.20"));
  EXPECT_EQ(DaysLeft(made->state.server.expiry, Noon()), 397);
  EXPECT_THAT(Verified(files_.server,
                       "-purpose sslserver -verify_hostname studio.local"),
              HasSubstr(": OK"));
  // Clients that pin the authority find it behind the server's certificate.
  const auto chain = ParseCertificates(ReadText(files_.server));
  ASSERT_EQ(chain->size(), 2u);
  EXPECT_EQ(FactsOf(*chain->back())->fingerprint,
            made->state.authority.fingerprint);
}

TEST_F(TlsFolderTest, ASecondInitChangesNothing) {
  Make();
  const std::string key = ReadText(files_.authority_key);
  const std::string server = ReadText(files_.server);
  EXPECT_TRUE(absl::IsAlreadyExists(Init(state_dir_, Order()).status()));
  EXPECT_EQ(ReadText(files_.authority_key), key);
  EXPECT_EQ(ReadText(files_.server), server);
}

TEST_F(TlsFolderTest, OthersFilesAreNotReplacedEither) {
  fs::create_directories(files_.folder);
  EXPECT_TRUE(Init(state_dir_, Order()).ok()) << "an empty folder is free";
  fs::remove_all(files_.folder);
  fs::create_directories(files_.folder);
  WriteText(files_.folder / "my.pem", "mine");
  EXPECT_TRUE(absl::IsAlreadyExists(Init(state_dir_, Order()).status()));
  fs::remove_all(files_.folder);
  fs::create_symlink("/none", files_.folder);
  EXPECT_TRUE(absl::IsAlreadyExists(Init(state_dir_, Order()).status()));
}

TEST_F(TlsFolderTest, ForceKeepsTheFormerFolder) {
  Make();
  const std::string former_key = ReadText(files_.authority_key);
  WriteText(files_.folder / "notes", "mine");
  ServerOrder order = Order();
  order.force = true;
  const auto made = Init(state_dir_, order);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->former, state_dir_ / "tls-until-20270115T080000Z");
  EXPECT_EQ(ReadText(made->former / "ca.key"), former_key);
  EXPECT_EQ(ReadText(made->former / "notes"), "mine");
  EXPECT_NE(ReadText(files_.authority_key), former_key);
  EXPECT_FALSE(fs::exists(files_.folder / "notes"));
  const auto again = Init(state_dir_, order);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->former, state_dir_ / "tls-until-20270115T080000Z-2");
}

TEST_F(TlsFolderTest, ARefusedInitLeavesNothingAndTheRemainsOfAKilledOneGo) {
  ServerOrder order = Order();
  order.names = {"studio:7433"};
  EXPECT_TRUE(absl::IsInvalidArgument(Init(state_dir_, order).status()));
  EXPECT_TRUE(fs::is_empty(state_dir_));
  const fs::path remains = base::TemporaryBeside(state_dir_ / "tls-new");
  fs::create_directories(remains);
  WriteText(remains / "ca.key", "secret");
  Make();
  EXPECT_FALSE(fs::exists(remains));
}

TEST_F(TlsFolderTest, OneProcessAtATimeWorks) {
  Make();
  const auto lock = FolderLock::Take(state_dir_);
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(absl::IsUnavailable(Init(state_dir_, Order()).status()));
  EXPECT_TRUE(absl::IsUnavailable(Renew(state_dir_, Order()).status()));
}

TEST_F(TlsFolderTest, RenewalKeepsAuthorityKeyAndNames) {
  ServerOrder order = Order();
  order.names = {"gpu.example.com"};
  ASSERT_TRUE(Init(state_dir_, order).ok());
  const auto before = Look(state_dir_, Noon());
  const std::string key = ReadText(files_.server_key);
  // By now the machine has another address.
  order.names.clear();
  order.machine.addresses = {"192.168.1.99"};
  order.now = Noon() + 300 * kDay;
  const auto after = Renew(state_dir_, order);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->authority.fingerprint, before->authority.fingerprint);
  EXPECT_EQ(after->server.names, before->server.names);
  EXPECT_EQ(after->server.expiry, order.now + 397 * kDay);
  EXPECT_NE(after->server.serial, before->server.serial);
  EXPECT_EQ(ReadText(files_.server_key), key);
  EXPECT_EQ(ParseCertificates(ReadText(files_.server))->size(), 2u);
}

TEST_F(TlsFolderTest, RenewalWithANameTakesTheMachinesNamesOfNow) {
  Make();
  ServerOrder order = Order();
  order.names = {"gpu.example.com"};
  order.machine = {"tower", {}};
  const auto after = Renew(state_dir_, order);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(after->server.names,
              ElementsAre("gpu.example.com", "tower", "tower.local",
                          "localhost", "127.0.0.1", "::1"));
}

TEST_F(TlsFolderTest, RenewalMendsTheServersFiles) {
  for (const fs::path& path : {files_.server, files_.server_key}) {
    fs::remove_all(files_.folder);
    Make();
    fs::remove(path);
    const auto after = Renew(state_dir_, Order());
    ASSERT_TRUE(after.ok()) << path << ": " << after.status();
    EXPECT_THAT(after->problems, IsEmpty()) << path;
    EXPECT_EQ(ModeOf(files_.server_key), 0600);
  }
}

TEST_F(TlsFolderTest, RenewalSaysWhatItLacks) {
  EXPECT_THAT(std::string(Renew(state_dir_, Order()).status().message()),
              HasSubstr("`mpsd tls init` makes them"));
  Make();
  ServerOrder late = Order();
  late.now = Noon() + 3700 * kDay;
  EXPECT_THAT(std::string(Renew(state_dir_, late).status().message()),
              HasSubstr("`mpsd tls init --force` makes another"));
  fs::permissions(files_.authority_key, fs::perms::all);
  EXPECT_THAT(std::string(Renew(state_dir_, Order()).status().message()),
              HasSubstr("chmod 600 " + files_.authority_key.string()));
  fs::remove(files_.authority_key);
  EXPECT_THAT(std::string(Renew(state_dir_, Order()).status().message()),
              HasSubstr("holds no certificate authority of mpsd"));
}

TEST_F(TlsFolderTest, ShowsWhatHasToBeMended) {
  EXPECT_TRUE(absl::IsNotFound(Look(state_dir_, Noon()).status()));
  Make();
  EXPECT_THAT(ProblemsAt(Noon()), IsEmpty());
  EXPECT_THAT(ProblemsAt(Noon() + 367 * kDay), IsEmpty());
  EXPECT_THAT(ProblemsAt(Noon() + 368 * kDay),
              ElementsAre(HasSubstr("expires on 2028-02-16: run `mpsd tls "
                                    "renew`")));
  EXPECT_THAT(ProblemsAt(Noon() + 398 * kDay),
              ElementsAre(HasSubstr("expired on 2028-02-16")));
  EXPECT_THAT(ProblemsAt(Noon() - kDay),
              testing::Contains(HasSubstr("compare the clock")));
  fs::permissions(files_.server_key, fs::perms::all);
  EXPECT_THAT(ProblemsAt(Noon()), ElementsAre(HasSubstr("chmod 600")));
}

TEST_F(TlsFolderTest, ShowsFilesThatDoNotBelongTogether) {
  Make();
  const auto other = MakeKey();
  ASSERT_TRUE(Replace(files_.server_key, *KeyPem(**other), kSecretMode).ok());
  EXPECT_THAT(ProblemsAt(Noon()),
              ElementsAre(HasSubstr("is not the key of server.crt")));
  ASSERT_TRUE(Renew(state_dir_, Order()).ok());
  EXPECT_THAT(ProblemsAt(Noon()), IsEmpty());
  const Authority foreign = MadeAuthority(Noon());
  WriteText(files_.authority, PemOf(foreign.certificate()));
  EXPECT_THAT(ProblemsAt(Noon()),
              ElementsAre(HasSubstr("no certificate can be made"),
                          HasSubstr("not signed by the authority in ca.crt")));
  WriteText(files_.authority, "nonsense");
  EXPECT_THAT(std::string(Look(state_dir_, Noon()).status().message()),
              HasSubstr("ca.crt: expected certificates in PEM format"));
}

}  // namespace
}  // namespace mpsd::pki
