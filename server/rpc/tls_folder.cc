// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/tls_folder.h"

#include <fcntl.h>

#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/exchange.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/secret_file.h"
#include "core/base/small_file.h"
#include "core/base/status_macros.h"
#include "core/base/pem.h"
#include "server/rpc/private_files.h"

namespace mpsd::pki {
namespace fs = std::filesystem;
namespace {

using certificates::CertificatePem;
using certificates::FactsOf;
using certificates::KeyPem;
using certificates::MakeKey;
using certificates::ParseCertificates;

// The folder while it is made.
constexpr char kStaged[] = "tls-new";
// A certificate this close to its end is worth a warning.
constexpr int kRenewalDays = 30;

absl::Status About(const fs::path& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path.string(), ": ", status.message()));
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

absl::StatusOr<std::vector<Certificate>> ReadChain(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSmallFile(path, limits::kPemBytes));
  absl::StatusOr<std::vector<Certificate>> chain = ParseCertificates(pem);
  if (!chain.ok()) return About(path, chain.status());
  return chain;
}

absl::StatusOr<Key> ReadKey(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSecretFile(path, limits::kPemBytes));
  absl::StatusOr<Key> key = certificates::ParseKey(pem);
  if (!key.ok()) return About(path, key.status());
  return key;
}

absl::StatusOr<Authority> ReadAuthority(const TlsFiles& files) {
  if (!Exists(files.authority) || !Exists(files.authority_key)) {
    return absl::FailedPreconditionError(absl::StrCat(
        files.folder.string(),
        " holds no certificate authority of mpsd: run `mpsd tls init`, or ask "
        "whoever made the certificates that mpsd uses"));
  }
  ASSIGN_OR_RETURN(const std::string certificate,
                   base::ReadSmallFile(files.authority, limits::kPemBytes));
  ASSIGN_OR_RETURN(
      const std::string key,
      base::ReadSecretFile(files.authority_key, limits::kPemBytes));
  absl::StatusOr<Authority> authority = Authority::Load(certificate, key);
  if (!authority.ok()) return About(files.authority, authority.status());
  return authority;
}

// Adds the advice to the one precondition of issuing: an authority that has not
// expired.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(),
                   ": `mpsd tls init --force` makes another, which every "
                   "client has to log in to again"));
}

// The leaf's PEM followed by the authority's.
absl::StatusOr<std::string> ChainPem(const X509& leaf,
                                     const Authority& authority) {
  absl::StatusOr<std::string> chain = CertificatePem(leaf);
  absl::StatusOr<std::string> root = CertificatePem(authority.certificate());
  if (!chain.ok()) return chain;
  if (!root.ok()) return root;
  return absl::StrCat(*chain, *root);
}

// --- init --------------------------------------------------------------------

absl::Status WriteAll(const TlsFiles& files, const Authority& authority,
                      const EVP_PKEY& server_key, const X509& server) {
  const absl::StatusOr<std::string> root =
      CertificatePem(authority.certificate());
  const absl::StatusOr<std::string> root_key = KeyPem(authority.key());
  const absl::StatusOr<std::string> chain = ChainPem(server, authority);
  const absl::StatusOr<std::string> key = KeyPem(server_key);
  const struct {
    const fs::path& path;
    const absl::StatusOr<std::string>& pem;
    mode_t mode;
  } all[] = {{files.authority, root, kPublicMode},
             {files.authority_key, root_key, kSecretMode},
             {files.server, chain, kPublicMode},
             {files.server_key, key, kSecretMode}};
  for (const auto& file : all) {
    if (!file.pem.ok()) return file.pem.status();
    RETURN_IF_ERROR(WriteNew(file.path, *file.pem, file.mode));
  }
  return base::SyncPath(files.folder, O_RDONLY | O_DIRECTORY);
}

TlsFiles FilesIn(const fs::path& folder) {
  return {folder, folder / "ca.crt", folder / "ca.key", folder / "server.crt",
          folder / "server.key"};
}

// Makes all files in a new folder next to the final one.
absl::Status Stage(const fs::path& staged, const ServerOrder& order) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ServerNames(order.machine, order.names));
  ASSIGN_OR_RETURN(const Authority authority,
                   Authority::Make(names.front(), order.now));
  ASSIGN_OR_RETURN(const Key key, MakeKey());
  ASSIGN_OR_RETURN(const Certificate server,
                   authority.IssueServer(*key, names, order.days, order.now));
  RETURN_IF_ERROR(MakePrivateFolder(staged));
  return WriteAll(FilesIn(staged), authority, *key, *server);
}

// A free name next to the folder, by the day and the second.
fs::path FormerName(const fs::path& folder, absl::Time now) {
  const std::string name = absl::StrCat(
      folder.filename().string(), "-until-",
      absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
  fs::path path = folder.parent_path() / name;
  for (int i = 2; Exists(path); ++i) {
    path = folder.parent_path() / absl::StrCat(name, "-", i);
  }
  return path;
}

// Replaces the final folder by the staged one. Returns the old one's new path.
// Whenever the process is killed, the final name is a complete folder.
absl::StatusOr<fs::path> SwapIn(const fs::path& staged, const fs::path& folder,
                                absl::Time now) {
  fs::path former = FormerName(folder, now);
  std::error_code error;
  fs::rename(staged, former, error);
  if (error) return base::ErrnoStatus(error.value(), former.string());
  if (absl::Status s = base::ExchangePaths(former, folder); !s.ok()) {
    fs::remove_all(former, error);
    return s;
  }
  return former;
}

// Makes the files and replaces the final folder by them. Returns the old one's
// new path; empty: there was none.
absl::StatusOr<fs::path> Replaced(const fs::path& staged,
                                  const fs::path& folder,
                                  const ServerOrder& order) {
  RETURN_IF_ERROR(Stage(staged, order));
  absl::StatusOr<fs::path> former = fs::path();
  if (Exists(folder)) {
    former = SwapIn(staged, folder, order.now);
    if (!former.ok()) return former;
  } else {
    std::error_code error;
    fs::rename(staged, folder, error);
    if (error) return base::ErrnoStatus(error.value(), folder.string());
  }
  RETURN_IF_ERROR(base::SyncPath(folder.parent_path(), O_RDONLY | O_DIRECTORY));
  return former;
}

// --- show --------------------------------------------------------------------

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

void CheckDates(const std::string& what, const CertificateFacts& facts,
                const std::string& remedy, absl::Time now,
                std::vector<std::string>& problems) {
  if (facts.begin > now) {
    problems.push_back(
        absl::StrCat(what, " is not valid before ", Date(facts.begin),
                     ": compare the clock of this machine with another's"));
  } else if (facts.expiry <= now) {
    problems.push_back(
        absl::StrCat(what, " expired on ", Date(facts.expiry), ": ", remedy));
  } else if (certificates::DaysLeft(facts.expiry, now) < kRenewalDays) {
    problems.push_back(
        absl::StrCat(what, " expires on ", Date(facts.expiry), ": ", remedy));
  }
}

void CheckFiles(const TlsFiles& files, const X509& authority,
                const X509& server, std::vector<std::string>& problems) {
  if (const auto loaded = ReadAuthority(files); !loaded.ok()) {
    problems.push_back(absl::StrCat("no certificate can be made: ",
                                    std::string(loaded.status().message())));
  }
  const absl::StatusOr<Key> key = ReadKey(files.server_key);
  if (!key.ok()) {
    problems.emplace_back(key.status().message());
  } else if (EVP_PKEY_eq(X509_get0_pubkey(&server), key->get()) != 1) {
    problems.push_back(absl::StrCat(files.server_key.string(),
                                    " is not the key of server.crt: `mpsd tls "
                                    "renew` makes a certificate for it"));
  }
  if (!certificates::IsIssuedBy(server, authority)) {
    problems.push_back("server.crt is not signed by the authority in ca.crt");
  }
}

absl::Status NotMade(const TlsFiles& files) {
  return absl::NotFoundError(
      absl::StrCat(files.folder.string(),
                   " holds no certificates: `mpsd tls init` makes them"));
}

}  // namespace

TlsFiles FilesOf(const fs::path& state_dir) {
  return FilesIn(state_dir / "tls");
}

absl::StatusOr<TlsState> Look(const fs::path& state_dir, absl::Time now) {
  const TlsFiles files = FilesOf(state_dir);
  if (!Exists(files.authority) || !Exists(files.server)) return NotMade(files);
  ASSIGN_OR_RETURN(const auto authority, ReadChain(files.authority));
  ASSIGN_OR_RETURN(const auto server, ReadChain(files.server));
  absl::StatusOr<CertificateFacts> authority_facts =
      FactsOf(*authority.front());
  absl::StatusOr<CertificateFacts> server_facts = FactsOf(*server.front());
  if (!authority_facts.ok()) {
    return About(files.authority, authority_facts.status());
  }
  if (!server_facts.ok()) return About(files.server, server_facts.status());
  TlsState state{*std::move(authority_facts), *std::move(server_facts), {}};
  CheckDates("the server's certificate", state.server, "run `mpsd tls renew`",
             now, state.problems);
  CheckDates("the certificate authority", state.authority,
             "`mpsd tls init --force` makes another, which every client has to "
             "log in to again",
             now, state.problems);
  CheckFiles(files, *authority.front(), *server.front(), state.problems);
  return state;
}

absl::StatusOr<Initialized> Init(const fs::path& state_dir,
                                 const ServerOrder& order) {
  const TlsFiles files = FilesOf(state_dir);
  const AsOwnerOf owner(state_dir);
  RETURN_IF_ERROR(MakePrivateFolder(state_dir));
  ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(state_dir));
  RemoveUnfinished(state_dir, kStaged);
  std::error_code ignored;
  const bool empty = fs::is_directory(files.folder, ignored) &&
                     fs::is_empty(files.folder, ignored);
  if (Exists(files.folder) && !empty && !order.force) {
    return absl::AlreadyExistsError(
        absl::StrCat(files.folder.string(), " exists: nothing was changed"));
  }
  const fs::path staged = base::TemporaryBeside(state_dir / kStaged);
  const absl::StatusOr<fs::path> former = Replaced(staged, files.folder, order);
  if (!former.ok()) {
    fs::remove_all(staged, ignored);
    return former.status();
  }
  ASSIGN_OR_RETURN(TlsState state, Look(state_dir, order.now));
  return Initialized{std::move(state), *former};
}

absl::StatusOr<TlsState> Renew(const fs::path& state_dir,
                               const ServerOrder& order) {
  const TlsFiles files = FilesOf(state_dir);
  const AsOwnerOf owner(state_dir);
  if (!Exists(files.folder)) return NotMade(files);
  ASSIGN_OR_RETURN(const auto lock, FolderLock::Take(state_dir));
  RemoveUnfinished(files.folder, files.server.filename().string());
  RemoveUnfinished(files.folder, files.server_key.filename().string());
  ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(files));
  absl::StatusOr<std::vector<std::string>> names =
      ServerNames(order.machine, order.names);
  if (!names.ok()) return names.status();
  const auto former = ReadChain(files.server);
  if (order.names.empty() && former.ok()) {
    const auto facts = FactsOf(*former->front());
    if (facts.ok() && !facts->names.empty()) names = facts->names;
  }
  absl::StatusOr<Key> key = ReadKey(files.server_key);
  if (absl::IsNotFound(key.status())) {
    key = MakeKey();
    ASSIGN_OR_RETURN(const auto pem, key.ok() ? KeyPem(**key) : key.status());
    RETURN_IF_ERROR(Replace(files.server_key, pem, kSecretMode));
  }
  if (!key.ok()) return key.status();
  const absl::StatusOr<Certificate> server =
      authority.IssueServer(**key, *names, order.days, order.now);
  if (!server.ok()) return WithAdvice(server.status());
  ASSIGN_OR_RETURN(const std::string chain, ChainPem(**server, authority));
  RETURN_IF_ERROR(Replace(files.server, chain, kPublicMode));
  return Look(state_dir, order.now);
}

}  // namespace mpsd::pki
