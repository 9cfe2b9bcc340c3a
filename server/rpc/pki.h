// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/certificates.h"

// STATE/tls (mode 0700), the certificates that mpsd makes for itself:
//   ca.crt, ca.key          its own certificate authority
//   server.crt, server.key  the certificate of mpsd's TLS addresses; server.crt
//                           also holds the authority's, for clients to pin
// The keys have mode 0600. The folder appears complete or not at all, and each
// file is replaced in one step, so that a killed process leaves nothing
// incomplete. Root makes them as the owner of STATE, as whom mpsd runs. Of
// several concurrent processes one works; the others get Unavailable.
namespace mpsd::pki {

using certificates::Certificate;
using certificates::CertificateFacts;
using certificates::Key;

// --- the names that a server's certificate holds: DNS names and addresses

// `text` in the one spelling that a certificate uses: a DNS name in lower case
// without a final dot, or an address as the system writes it, without brackets.
// InvalidArgument says what is wrong, for a port and an IPv6 zone too.
absl::StatusOr<std::string> ParseHostName(std::string_view text);

// Whether a name that ParseHostName returned is an address.
bool IsAddress(const std::string& name);

// What the system knows of this machine.
struct Machine {
  std::string host_name;               // "studio", "studio.example.com"
  std::vector<std::string> addresses;  // of interfaces that are up
};
Machine ThisMachine();

// `given`; the host name, its first label, and that in the domain "local", by
// which machines of a local network find each other (mDNS); localhost,
// 127.0.0.1 and ::1; then as many of the machine's addresses as a certificate
// has room for (limits::kHostNames). Each name once. Omits addresses that mean
// something else on each machine (IPv6 link-local ones) and a host name that no
// certificate can hold. InvalidArgument for a name of `given` that
// ParseHostName refuses, and if the names alone are too many.
absl::StatusOr<std::vector<std::string>> ServerNames(
    const Machine& machine, const std::vector<std::string>& given);

// --- the authority

// Apple's rules refuse a server's certificate of more than 398 days.
inline constexpr int kServerDays = 397;

// A certificate authority of one machine. Its certificate only signs others,
// and no other authority. All certificates that it issues have keys on the
// curve P-256, a serial number of 158 random bits, and begin an hour ago, since
// other machines' clocks differ.
class Authority {
 public:
  // A new one, for ten years. `machine` is part of its name.
  static absl::StatusOr<Authority> Make(const std::string& machine,
                                        absl::Time now);
  // InvalidArgument if a text is not PEM, the certificate is not an
  // authority's, or the key does not match.
  static absl::StatusOr<Authority> Load(const std::string& certificate_pem,
                                        const std::string& key_pem);

  const X509& certificate() const { return *certificate_; }
  const EVP_PKEY& key() const { return *key_; }

  // A certificate for a server of these names (ParseHostName; at least one),
  // for `days` days, or until the authority's own ends. FailedPrecondition if
  // that has passed.
  absl::StatusOr<Certificate> IssueServer(const EVP_PKEY& key,
                                          const std::vector<std::string>& names,
                                          int days, absl::Time now) const;

 private:
  Authority(Certificate certificate, Key key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  Certificate certificate_;
  Key key_;
};

// --- files whose mode and owner are right from their first byte on

inline constexpr mode_t kSecretMode = 0600;
inline constexpr mode_t kPublicMode = 0644;

// Writes `path`, which does not exist yet, and fsyncs it.
absl::Status WriteNew(const std::filesystem::path& path, std::string_view bytes,
                      mode_t mode);

// Replaces `path`, or makes it, in one step, and fsyncs it with its folder.
absl::Status Replace(const std::filesystem::path& path, std::string_view bytes,
                     mode_t mode);

// Makes a folder with mode 0700, and missing ones above it. OK if it exists.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

// Removes what killed processes left in `folder` of the names that
// base::TemporaryBeside makes for `name`.
void RemoveUnfinished(const std::filesystem::path& folder,
                      std::string_view name);

// While this object exists, root acts as the owner of `folder`, or of the first
// existing folder above: files are the owner's, and a link planted by the owner
// gives no more than the owner's rights. Does nothing for other users. Only for
// a process of one thread.
class AsOwnerOf {
 public:
  explicit AsOwnerOf(std::filesystem::path folder);
  ~AsOwnerOf();
  AsOwnerOf(const AsOwnerOf&) = delete;
  AsOwnerOf& operator=(const AsOwnerOf&) = delete;

 private:
  bool changed_ = false;
};

// --- the folder

struct TlsFiles {
  std::filesystem::path folder, authority, authority_key, server, server_key;
};
TlsFiles FilesOf(const std::filesystem::path& state_dir);

struct ServerOrder {
  std::vector<std::string> names;  // in addition to the machine's own
  int days = kServerDays;
  Machine machine;
  absl::Time now;
  bool force = false;  // only for Init: make another authority
};

// The contents of a folder.
struct TlsState {
  CertificateFacts authority;
  CertificateFacts server;
  // What the user must fix, a sentence each; empty: nothing.
  std::vector<std::string> problems;
};

struct Initialized {
  TlsState state;
  // The old folder's new path; empty: none existed.
  std::filesystem::path former;
};

// Makes the folder, and STATE (0700) if it is missing. AlreadyExists, with
// nothing changed, if there is one, unless the order says force: the old one is
// then kept next to it. InvalidArgument for a name.
absl::StatusOr<Initialized> Init(const std::filesystem::path& state_dir,
                                 const ServerOrder& order);

// Replaces server.crt by a certificate of the same authority and key. Its names
// are those of the old one, or with order.names this machine's and those. Makes
// server.key if it is missing. FailedPrecondition, saying what to do, if there
// is no authority that could sign.
absl::StatusOr<TlsState> Renew(const std::filesystem::path& state_dir,
                               const ServerOrder& order);

// Reads the folder. NotFound if there is none; else the error of the first
// certificate that cannot be read.
absl::StatusOr<TlsState> Look(const std::filesystem::path& state_dir,
                              absl::Time now);

}  // namespace mpsd::pki

// The certificate that a server serves: mpsd's own, or another's.
namespace mpsd::tls {

// A server's certificate and its key, both PEM. The certificate's file may hold
// the certificates between it and its authority, in that order.
struct ServerFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;  // readable only by its owner and group
};

// The content of the files, encoded again: nothing but the PEM blocks, the key
// without a passphrase.
struct ServerPem {
  std::string chain;
  std::string key;
  absl::Time expiry;  // notAfter of the server's certificate
};

// What this function returns can serve TLS. InvalidArgument for files that are
// not PEM, for a key with a passphrase, for a key of another certificate and
// for one that OpenSSL considers too weak; else the errors of ReadSecretFile
// and base::ReadSmallFile. An expired certificate is accepted: a client's error
// says more than a refused connection.
absl::StatusOr<ServerPem> ReadServerPem(const ServerFiles& files);

}  // namespace mpsd::tls
