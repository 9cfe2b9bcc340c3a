// SPDX-License-Identifier: Apache-2.0
// mpsd's own certificates: the names of the machine, its authority, and the
// folder with both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "core/base/certificates.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "server/rpc/pki.h"
#include "tests/core/base/made.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::pki {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using certificates::DaysLeft;
using certificates::FactsOf;
using certificates::KeyPem;
using certificates::MakeKey;
using certificates::ParseCertificates;
using certificates::ReadText;
using certificates::Said;
using certificates::WriteText;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Fails;
using testing_support::IsOk;
using testing_support::Ok;
using testing_support::Says;

constexpr absl::Duration kDay = absl::Hours(24);

absl::Time Noon() { return absl::FromUnixSeconds(1'800'000'000); }

Authority MadeAuthority(absl::Time now) {
  absl::StatusOr<Authority> authority = Authority::Make("studio", now);
  EXPECT_THAT(authority, IsOk()) << authority.status();
  return *std::move(authority);
}

std::string PemOf(const X509& certificate) {
  const absl::StatusOr<std::string> pem =
      certificates::CertificatePem(certificate);
  EXPECT_THAT(pem, IsOk()) << pem.status();
  return *pem;
}

TEST(HostNamesTest, ANameHasOneSpelling) {
  const struct {
    std::string text, name;
    bool address;
  } cases[] = {
      {"Studio", "studio", false},
      {"studio.example.com.", "studio.example.com", false},
      {"my_host-2.LAN", "my_host-2.lan", false},
      {"xn--mnchen-3ya.de", "xn--mnchen-3ya.de", false},
      {"192.168.1.20", "192.168.1.20", true},
      {"2001:DB8:0::1", "2001:db8::1", true},
      {"[::1]", "::1", true},
      {std::string(63, 'a'), std::string(63, 'a'), false},
  };
  for (const auto& c : cases) {
    const auto name = ParseHostName(c.text);
    ASSERT_TRUE(name.ok()) << c.text << ": " << name.status();
    EXPECT_EQ(*name, c.name);
    EXPECT_EQ(IsAddress(*name), c.address) << c.text;
  }
}

TEST(HostNamesTest, WhatIsNoNameIsRefusedAndSaysWhy) {
  const std::string letters(63, 'a');
  const std::string too_long =
      letters + "." + letters + "." + letters + "." + letters;
  const struct {
    std::string text, hint;
  } cases[] = {{"", "expected"},
               {".", "expected"},
               {"a..b", "expected"},
               {"-a", "expected"},
               {"a-", "expected"},
               {"a b", "expected"},
               {"a/b", "expected"},
               {"a\nDNS:evil", "expected"},
               {std::string("a\0b", 3), "expected"},
               {std::string("127.0.0.1\0.evil", 15), "expected"},
               {"münchen.de", "xn--"},
               {"*.example.com", "no wildcard"},
               {"studio:7433", "no port"},
               {"[::1]:7433", "no port"},
               {"fe80::1%en0", "zone"},
               {"10.0.0.256", "expected"},
               {"127.1", "expected"},
               {letters + "a", "expected"},
               {too_long, "expected"},
               {std::string(1 << 20, 'a'), "expected"}};
  for (const auto& c : cases) {
    const absl::Status status = ParseHostName(c.text).status();
    EXPECT_THAT(status, Fails(StatusCode::kInvalidArgument))
        << c.text.substr(0, 80);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.hint));
    EXPECT_LT(status.message().size(), 400u);
  }
}

TEST(HostNamesTest, AHostNameThatCannotBeOneIsLeftOut) {
  for (const char* name : {"", "my host", "10.0.0.1", "localhost"}) {
    const auto names = ServerNames({name, {}}, {});
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_THAT(*names, ElementsAre("localhost", "127.0.0.1", "::1")) << name;
  }
}

TEST(HostNamesTest, AddressesFillTheRoomThatNamesLeave) {
  Machine machine{"studio", {}};
  for (int i = 0; i < 100; ++i) {
    machine.addresses.push_back("10.0.0." + std::to_string(i));
  }
  const auto names = Ok(ServerNames(machine, {}));
  EXPECT_EQ(names.size(), limits::kHostNames);
  EXPECT_EQ(names.back(), "10.0.0.58");
}

TEST(HostNamesTest, AsManyNamesAsACertificateHolds) {
  std::vector<std::string> given;
  while (given.size() < limits::kHostNames - 5) {
    given.push_back("a" + std::to_string(given.size()));
  }
  EXPECT_THAT(ServerNames({"studio", {"10.0.0.1"}}, given), IsOk());
  given.push_back("one-more");
  const absl::Status status = ServerNames({"studio", {}}, given).status();
  EXPECT_THAT(status, Fails(StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 64"));
}

class AuthorityTest : public testing::Test {
 protected:
  AuthorityTest() {
    WriteText(folder_ / "ca", PemOf(authority_.certificate()));
  }

  // What openssl says of a certificate, as strictly as it can.
  std::string Verified(const X509& certificate, const std::string& options) {
    WriteText(folder_ / "crt", PemOf(certificate));
    return Said(
        "openssl verify -x509_strict -check_ss_sig -attime 1800000000 "
        "-CAfile '" +
        (folder_ / "ca").string() + "' " + options + " '" +
        (folder_ / "crt").string() + "'");
  }
  std::string Text(const X509& certificate) {
    WriteText(folder_ / "crt", PemOf(certificate));
    return Said("openssl x509 -noout -text -in '" + (folder_ / "crt").string() +
                "'");
  }

  const fs::path folder_ = testing_support::FreshFolder("authority");
  const Authority authority_ = MadeAuthority(Noon());
  const Key key_ = *MakeKey();
};

TEST_F(AuthorityTest, SignsCertificatesAndNothingElse) {
  const std::string text = Text(authority_.certificate());
  EXPECT_THAT(text, HasSubstr("CA:TRUE, pathlen:0"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "Key Usage: critical\n *Certificate Sign\n"));
  EXPECT_THAT(text, HasSubstr("NIST CURVE: P-256"));
  EXPECT_THAT(text, HasSubstr("ecdsa-with-SHA256"));
  EXPECT_THAT(text,
              testing::ContainsRegex("Subject: CN ?= ?mpsd CA of studio\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("Name Constraints")));
  EXPECT_THAT(Verified(authority_.certificate(), ""), HasSubstr(": OK"));
  const auto facts = FactsOf(authority_.certificate());
  EXPECT_EQ(facts->expiry - facts->begin, 3652 * kDay + absl::Hours(1));
}

TEST_F(AuthorityTest, AServersCertificateServesItsNamesAlone) {
  const auto made = Ok(authority_.IssueServer(
      *key_, {"studio.local", "192.168.1.20", "::1"}, kServerDays, Noon()));
  for (const char* name :
       {"-verify_hostname studio.local", "-verify_hostname STUDIO.local",
        "-verify_ip 192.168.1.20", "-verify_ip ::1"}) {
    EXPECT_THAT(Verified(*made, std::string("-purpose sslserver ") + name),
                HasSubstr(": OK"))
        << name;
  }
  for (const char* name :
       {"-verify_hostname studio", "-verify_hostname a.studio.local",
        "-verify_hostname 192.168.1.20", "-verify_ip 192.168.1.21"}) {
    EXPECT_THAT(Verified(*made, std::string("-purpose sslserver ") + name),
                HasSubstr("mismatch"))
        << name;
  }
  EXPECT_THAT(Verified(*made, "-purpose sslclient"),
              HasSubstr("unsuitable certificate purpose"));
  EXPECT_THAT(Text(*made), HasSubstr("CA:FALSE"));
}

TEST_F(AuthorityTest, NamesOfAnyLengthFitASubject) {
  const std::string name = std::string(63, 'a') + "." + std::string(63, 'b');
  const auto made = Ok(authority_.IssueServer(*key_, {name}, 1, Noon()));
  EXPECT_THAT(Verified(*made, "-verify_hostname " + name), HasSubstr(": OK"));
  const auto authority = Ok(Authority::Make(name, Noon()));
  EXPECT_EQ(FactsOf(authority.certificate())->subject.size(), 64u);
}

TEST_F(AuthorityTest, AnothersKeyIsRefused) {
  const auto pem = KeyPem(*key_);
  const auto loaded = Authority::Load(PemOf(authority_.certificate()), *pem);
  EXPECT_THAT(loaded, Says("key is not the certificate authority's"));
  // A certificate that it issued signs nothing.
  const auto made = authority_.IssueServer(*key_, {"studio"}, 1, Noon());
  EXPECT_THAT(Authority::Load(PemOf(**made), *pem),
              Says("not a certificate authority's"));
  EXPECT_FALSE(Authority::Load("", *pem).ok());
  EXPECT_FALSE(Authority::Load(PemOf(authority_.certificate()), "").ok());
}

TEST_F(AuthorityTest, NothingOutlivesIt) {
  const absl::Time end = FactsOf(authority_.certificate())->expiry;
  const auto made =
      Ok(authority_.IssueServer(*key_, {"studio"}, 90, end - 30 * kDay));
  EXPECT_EQ(FactsOf(*made)->expiry, end);
  const auto late = authority_.IssueServer(*key_, {"studio"}, 90, end);
  EXPECT_THAT(late, Fails(StatusCode::kFailedPrecondition));
  EXPECT_THAT(late, Says("expired on"));
  // Dates beyond 2049 are written right.
  const absl::Time future = Noon() + 40 * 365 * kDay;
  const Authority authority = MadeAuthority(future);
  EXPECT_EQ(FactsOf(authority.certificate())->begin, future - absl::Hours(1));
}

TEST_F(AuthorityTest, SerialNumbersDiffer) {
  std::set<std::string> serials;
  for (int i = 0; i < 200; ++i) {
    const auto made = authority_.IssueServer(*key_, {"studio"}, 1, Noon());
    const std::string serial = FactsOf(**made)->serial;
    EXPECT_EQ(serial.size(), 40u);
    EXPECT_LT(serial[0], '8');
    serials.insert(serial);
  }
  EXPECT_EQ(serials.size(), 200u);
}

int ModeOf(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

size_t Entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

// Runs each test once under a mask that hides nothing and once under one that
// hides much.
class PrivateFilesTest : public testing::TestWithParam<mode_t> {
 protected:
  PrivateFilesTest() : mask_(umask(GetParam())) {}
  ~PrivateFilesTest() override { umask(mask_); }
  const mode_t mask_;
  const fs::path folder_ = testing_support::FreshFolder("private");
};

TEST_P(PrivateFilesTest, ANewFileReplacesNoOther) {
  WriteText(folder_ / "file", "old");
  EXPECT_THAT(WriteNew(folder_ / "file", "new", kSecretMode),
              Fails(StatusCode::kAlreadyExists));
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_FALSE(WriteNew(folder_ / "link", "new", kSecretMode).ok());
  EXPECT_EQ(ReadText(folder_ / "file"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_P(PrivateFilesTest, AFileIsReplacedWithItsModeAndNothingIsLeft) {
  WriteText(folder_ / "file", "old");
  EXPECT_THAT(Replace(folder_ / "file", "new", kSecretMode), IsOk());
  EXPECT_EQ(ReadText(folder_ / "file"), "new");
  EXPECT_EQ(ModeOf(folder_ / "file"), 0600);
  // A link is replaced, not followed.
  WriteText(folder_ / "target", "kept");
  fs::create_symlink(folder_ / "target", folder_ / "link");
  EXPECT_THAT(Replace(folder_ / "link", "new", kSecretMode), IsOk());
  EXPECT_EQ(ReadText(folder_ / "target"), "kept");
  EXPECT_EQ(Entries(folder_), 3u);
}

TEST_P(PrivateFilesTest, WhatCannotBeWrittenLeavesTheOldFile) {
  fs::create_directory(folder_ / "taken");
  WriteText(folder_ / "taken" / "file", "");
  EXPECT_FALSE(Replace(folder_ / "taken", "new", kSecretMode).ok());
  EXPECT_FALSE(Replace(folder_ / "none" / "file", "new", kSecretMode).ok());
  EXPECT_EQ(Entries(folder_), 1u);
}

TEST_P(PrivateFilesTest, OnlyTheRemainsOfOneNameAreRemoved) {
  const fs::path remains = base::TemporaryBeside(folder_ / "tls-new");
  fs::create_directory(remains);
  WriteText(remains / "ca.key", "secret");
  const fs::path foreign = base::TemporaryBeside(folder_ / "tls-new-ones");
  WriteText(foreign, "");
  WriteText(folder_ / "tls-new", "");
  RemoveUnfinished(folder_, "tls-new");
  EXPECT_FALSE(fs::exists(remains));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(folder_ / "tls-new"));
}

TEST_P(PrivateFilesTest, RootActsAsTheFoldersOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root acts as others";
  constexpr uid_t kOther = 12345;
  fs::permissions(folder_.parent_path(), fs::perms(0711));
  ASSERT_EQ(chown(folder_.c_str(), kOther, kOther), 0);
  const fs::path roots = testing_support::FreshFolder("roots");
  fs::permissions(roots, fs::perms(0755));
  {
    const AsOwnerOf owner(folder_ / "tls" / "deeper");
    EXPECT_THAT(MakePrivateFolder(folder_ / "tls"), IsOk());
    EXPECT_THAT(Replace(folder_ / "tls" / "key", "secret", kSecretMode),
                IsOk());
    // What the owner may not, root may not now.
    EXPECT_FALSE(WriteNew(roots / "key", "secret", kSecretMode).ok());
  }
  EXPECT_THAT(WriteNew(roots / "key", "secret", kSecretMode), IsOk());
  struct stat info {};
  ASSERT_EQ(stat((folder_ / "tls" / "key").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kOther);
  EXPECT_EQ(info.st_gid, kOther);
}

INSTANTIATE_TEST_SUITE_P(Umasks, PrivateFilesTest,
                         testing::Values(mode_t{0}, mode_t{077}));

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
    EXPECT_THAT(state, IsOk()) << state.status();
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

TEST_F(TlsFolderTest, MakesWhatOpensslTakes) {
  const mode_t mask = umask(0);
  const auto made = Init(state_dir_, Order());
  umask(mask);
  ASSERT_TRUE(made.ok()) << made.status();
  // No other user reads the keys.
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
  // Clients that pin the authority find it after the server's certificate.
  const auto chain = ParseCertificates(ReadText(files_.server));
  ASSERT_EQ(chain->size(), 2u);
  EXPECT_EQ(FactsOf(*chain->back())->fingerprint,
            made->state.authority.fingerprint);
}

TEST_F(TlsFolderTest, ASecondInitChangesNothing) {
  Make();
  const std::string key = ReadText(files_.authority_key);
  const std::string server = ReadText(files_.server);
  EXPECT_THAT(Init(state_dir_, Order()), Fails(StatusCode::kAlreadyExists));
  EXPECT_EQ(ReadText(files_.authority_key), key);
  EXPECT_EQ(ReadText(files_.server), server);
}

TEST_F(TlsFolderTest, OthersFilesAreNotReplacedEither) {
  fs::create_directories(files_.folder);
  EXPECT_THAT(Init(state_dir_, Order()), IsOk()) << "an empty folder is free";
  fs::remove_all(files_.folder);
  fs::create_directories(files_.folder);
  WriteText(files_.folder / "my.pem", "mine");
  EXPECT_THAT(Init(state_dir_, Order()), Fails(StatusCode::kAlreadyExists));
  fs::remove_all(files_.folder);
  fs::create_symlink("/none", files_.folder);
  EXPECT_THAT(Init(state_dir_, Order()), Fails(StatusCode::kAlreadyExists));
}

TEST_F(TlsFolderTest, ForceKeepsTheFormerFolder) {
  Make();
  const std::string former_key = ReadText(files_.authority_key);
  WriteText(files_.folder / "notes", "mine");
  ServerOrder order = Order();
  order.force = true;
  const auto made = Ok(Init(state_dir_, order));
  EXPECT_EQ(made.former, state_dir_ / "tls-until-20270115T080000Z");
  EXPECT_EQ(ReadText(made.former / "ca.key"), former_key);
  EXPECT_EQ(ReadText(made.former / "notes"), "mine");
  EXPECT_NE(ReadText(files_.authority_key), former_key);
  EXPECT_FALSE(fs::exists(files_.folder / "notes"));
  const auto again = Ok(Init(state_dir_, order));
  EXPECT_EQ(again.former, state_dir_ / "tls-until-20270115T080000Z-2");
}

TEST_F(TlsFolderTest, ARefusedInitLeavesNothingAndTheRemainsOfAKilledOneGo) {
  ServerOrder order = Order();
  order.names = {"studio:7433"};
  EXPECT_THAT(Init(state_dir_, order), Fails(StatusCode::kInvalidArgument));
  EXPECT_FALSE(fs::exists(files_.folder));
  const fs::path remains = base::TemporaryBeside(state_dir_ / "tls-new");
  fs::create_directories(remains);
  WriteText(remains / "ca.key", "secret");
  Make();
  EXPECT_FALSE(fs::exists(remains));
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
  const auto after = Ok(Renew(state_dir_, order));
  EXPECT_EQ(after.authority.fingerprint, before->authority.fingerprint);
  EXPECT_EQ(after.server.names, before->server.names);
  EXPECT_EQ(after.server.expiry, order.now + 397 * kDay);
  EXPECT_NE(after.server.serial, before->server.serial);
  EXPECT_EQ(ReadText(files_.server_key), key);
  EXPECT_EQ(ParseCertificates(ReadText(files_.server))->size(), 2u);
}

TEST_F(TlsFolderTest, RenewalWithANameTakesTheMachinesNamesOfNow) {
  Make();
  ServerOrder order = Order();
  order.names = {"gpu.example.com"};
  order.machine = {"tower", {}};
  const auto after = Ok(Renew(state_dir_, order));
  EXPECT_THAT(after.server.names,
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
  EXPECT_THAT(Renew(state_dir_, Order()), Says("`mpsd tls init` makes them"));
  Make();
  ServerOrder late = Order();
  late.now = Noon() + 3700 * kDay;
  EXPECT_THAT(Renew(state_dir_, late),
              Says("`mpsd tls init --force` makes another"));
  fs::permissions(files_.authority_key, fs::perms::all);
  EXPECT_THAT(Renew(state_dir_, Order()),
              Says("chmod 600 " + files_.authority_key.string()));
  fs::remove(files_.authority_key);
  EXPECT_THAT(Renew(state_dir_, Order()),
              Says("holds no certificate authority of mpsd"));
}

TEST_F(TlsFolderTest, ShowsWhatHasToBeMended) {
  EXPECT_THAT(Look(state_dir_, Noon()), Fails(StatusCode::kNotFound));
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
  EXPECT_THAT(Look(state_dir_, Noon()),
              Says("ca.crt: expected certificates in PEM format"));
}

}  // namespace
}  // namespace mpsd::pki
