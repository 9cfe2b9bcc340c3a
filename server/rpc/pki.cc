// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pki.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/certificates.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::pki {
namespace fs = std::filesystem;
namespace {

using certificates::CertificatePem;
using certificates::FactsOf;
using certificates::KeyPem;
using certificates::MakeKey;
using certificates::OpensslFault;

// --- host names

constexpr size_t kDnsNameBytes = 253;  // RFC 1035, without the final dot
constexpr size_t kDnsLabelBytes = 63;

// The address as the system writes it; empty for other text.
std::string Address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  char written[INET6_ADDRSTRLEN];
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), bytes) == 1 &&
        inet_ntop(family, bytes, written, sizeof(written)) != nullptr) {
      return written;
    }
  }
  return "";
}

bool IsLabel(const std::string& label) {
  return !label.empty() && label.size() <= kDnsLabelBytes &&
         label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_';
         });
}

bool IsDnsName(const std::string& name) {
  if (name.empty() || name.size() > kDnsNameBytes) return false;
  const std::vector<std::string> labels = absl::StrSplit(name, '.');
  // A last label of only digits is a mistyped address.
  return std::all_of(labels.begin(), labels.end(), IsLabel) &&
         !std::all_of(labels.back().begin(), labels.back().end(),
                      [](char c) { return absl::ascii_isdigit(c); });
}

bool IsLinkLocal6(const sockaddr& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(
             &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string AddressOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN];
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (address.sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  if (bytes == nullptr ||
      inet_ntop(address.sa_family, bytes, text, sizeof(text)) == nullptr) {
    return "";
  }
  return text;
}

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

}  // namespace

absl::StatusOr<std::string> ParseHostName(std::string_view text) {
  std::string name(text);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  }
  // inet_pton reads up to a NUL.
  const bool whole = name.find('\0') == name.npos;
  if (std::string address = Address(name); whole && !address.empty()) {
    return address;
  }
  if (!name.empty() && name.back() == '.') name.pop_back();
  absl::AsciiStrToLower(&name);
  if (IsDnsName(name)) return name;
  const char* hint = "";
  if (text.find('%') != text.npos) {
    hint = "; an address with a zone means another machine elsewhere";
  } else if (text.find(':') != text.npos) {
    hint = "; a name has no port";
  } else if (text.find('*') != text.npos) {
    hint = "; a name has no wildcard";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", base::Quotable(text),
      "' is not a name for a certificate: expected an address, or a DNS name "
      "of letters, digits, '-' and '_' (others in their xn-- form)",
      hint));
}

bool IsAddress(const std::string& name) { return !Address(name).empty(); }

Machine ThisMachine() {
  Machine machine;
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0) machine.host_name = name;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return machine;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all,
                                                               &freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    const bool counts =
        at->ifa_addr != nullptr && (at->ifa_flags & IFF_UP) != 0 &&
        (at->ifa_flags & IFF_LOOPBACK) == 0 && !IsLinkLocal6(*at->ifa_addr);
    const std::string address = counts ? AddressOf(*at->ifa_addr) : "";
    if (!address.empty()) AddOnce(address, machine.addresses);
  }
  return machine;
}

absl::StatusOr<std::vector<std::string>> ServerNames(
    const Machine& machine, const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (const std::string& text : given) {
    ASSIGN_OR_RETURN(const std::string name, ParseHostName(text));
    AddOnce(name, names);
  }
  const absl::StatusOr<std::string> host = ParseHostName(machine.host_name);
  if (host.ok() && !IsAddress(*host)) {
    const std::string label = host->substr(0, host->find('.'));
    AddOnce(*host, names);
    AddOnce(label, names);
    if (label != "localhost") AddOnce(absl::StrCat(label, ".local"), names);
  }
  for (const char* own : {"localhost", "127.0.0.1", "::1"}) {
    AddOnce(own, names);
  }
  if (names.size() > limits::kHostNames) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " names, but a certificate holds at most ",
                     limits::kHostNames));
  }
  for (const std::string& address : machine.addresses) {
    if (names.size() < limits::kHostNames) AddOnce(address, names);
  }
  return names;
}

// --- the authority

namespace {

constexpr absl::Duration kDay = absl::Hours(24);
constexpr int kAuthorityDays = 3652;  // ten years
constexpr absl::Duration kBackdate = absl::Hours(1);
constexpr size_t kCommonNameBytes = 64;  // RFC 5280, ub-common-name

// 158 random bits in at most 20 bytes, as RFC 5280 allows: positive, and never
// 0.
bool SetSerial(X509* certificate) {
  unsigned char bytes[20];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] = (bytes[0] & 0x7f) | 0x40;
  const certificates::Number number(BN_bin2bn(bytes, sizeof(bytes), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetName(X509* certificate, const std::string& common_name) {
  return X509_NAME_add_entry_by_NID(
             X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(common_name.data()),
             static_cast<int>(common_name.size()), -1, 0) == 1;
}

bool SetTimes(X509* certificate, absl::Time begin, absl::Time expiry) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       absl::ToTimeT(begin)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       absl::ToTimeT(expiry)) != nullptr;
}

// Adds an extension by OpenSSL's text for it, which is a constant.
bool Extend(X509* certificate, const X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, const_cast<X509*>(issuer), certificate, nullptr,
                 nullptr, 0);
  const certificates::Extension extension(
      X509V3_EXT_nconf_nid(nullptr, &context, nid, value));
  return extension != nullptr &&
         X509_add_ext(certificate, extension.get(), -1) == 1;
}

certificates::GeneralName NameOf(const std::string& name) {
  certificates::GeneralName general(GENERAL_NAME_new());
  if (general == nullptr) return nullptr;
  if (IsAddress(name)) {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str());
    if (address == nullptr) return nullptr;
    GENERAL_NAME_set0_value(general.get(), GEN_IPADD, address);
    return general;
  }
  ASN1_IA5STRING* text = ASN1_IA5STRING_new();
  if (text == nullptr) return nullptr;
  GENERAL_NAME_set0_value(general.get(), GEN_DNS, text);
  const bool set =
      ASN1_STRING_set(text, name.data(), static_cast<int>(name.size())) == 1;
  return set ? std::move(general) : nullptr;
}

bool SetHostNames(X509* certificate, const std::vector<std::string>& names) {
  const certificates::GeneralNames all(GENERAL_NAMES_new());
  for (const std::string& name : names) {
    certificates::GeneralName general = NameOf(name);
    if (all == nullptr || general == nullptr ||
        sk_GENERAL_NAME_push(all.get(), general.get()) == 0) {
      return false;
    }
    static_cast<void>(general.release());
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, all.get(),
                           /*crit=*/0, X509V3_ADD_DEFAULT) == 1;
}

// A certificate of version 3 with the fields that every kind has.
Certificate Blank(const EVP_PKEY& key, const std::string& subject,
                  absl::Time begin, absl::Time expiry) {
  Certificate made(X509_new());
  const bool filled =
      made != nullptr && X509_set_version(made.get(), X509_VERSION_3) == 1 &&
      SetSerial(made.get()) && SetName(made.get(), subject) &&
      SetTimes(made.get(), begin, expiry) &&
      X509_set_pubkey(made.get(), const_cast<EVP_PKEY*>(&key)) == 1;
  return filled ? std::move(made) : nullptr;
}

bool Sign(X509* certificate, const EVP_PKEY& key) {
  return X509_sign(certificate, const_cast<EVP_PKEY*>(&key), EVP_sha256()) > 0;
}

}  // namespace

absl::StatusOr<Authority> Authority::Make(const std::string& machine,
                                          absl::Time now) {
  ASSIGN_OR_RETURN(Key key, certificates::MakeKey());
  const std::string name =
      absl::StrCat("mpsd CA of ", machine).substr(0, kCommonNameBytes);
  Certificate made =
      Blank(*key, name, now - kBackdate, now + kAuthorityDays * kDay);
  const bool signed_by_itself =
      made != nullptr &&
      X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) ==
          1 &&
      Extend(made.get(), made.get(), NID_basic_constraints,
             "critical,CA:TRUE,pathlen:0") &&
      Extend(made.get(), made.get(), NID_key_usage, "critical,keyCertSign") &&
      Extend(made.get(), made.get(), NID_subject_key_identifier, "hash") &&
      Sign(made.get(), *key);
  if (!signed_by_itself) return OpensslFault("make a certificate authority");
  return Authority(std::move(made), std::move(key));
}

absl::StatusOr<Authority> Authority::Load(const std::string& certificate_pem,
                                          const std::string& key_pem) {
  ASSIGN_OR_RETURN(std::vector<Certificate> certificates,
                   certificates::ParseCertificates(certificate_pem));
  ASSIGN_OR_RETURN(Key key, certificates::ParseKey(key_pem));
  Certificate& certificate = certificates.front();
  const bool own = X509_check_private_key(certificate.get(), key.get()) == 1;
  const bool authority = X509_check_ca(certificate.get()) == 1;
  ERR_clear_error();
  if (!authority) {
    return absl::InvalidArgumentError(
        "the certificate is not a certificate authority's");
  }
  if (!own) {
    return absl::InvalidArgumentError(
        "the key is not the certificate authority's");
  }
  return Authority(std::move(certificate), std::move(key));
}

absl::StatusOr<Certificate> Authority::IssueServer(
    const EVP_PKEY& key, const std::vector<std::string>& names, int days,
    absl::Time now) const {
  ASSIGN_OR_RETURN(const CertificateFacts own, FactsOf(*certificate_));
  if (own.expiry <= now) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the certificate authority expired on ",
        absl::FormatTime("%Y-%m-%d", own.expiry, absl::UTCTimeZone())));
  }
  const bool fits = !names.empty() && names[0].size() <= kCommonNameBytes;
  Certificate made = Blank(key, fits ? names[0] : "mpsd", now - kBackdate,
                           std::min(now + days * kDay, own.expiry));
  const bool filled =
      made != nullptr &&
      X509_set_issuer_name(made.get(),
                           X509_get_subject_name(certificate_.get())) == 1 &&
      Extend(made.get(), made.get(), NID_basic_constraints,
             "critical,CA:FALSE") &&
      Extend(made.get(), made.get(), NID_key_usage,
             "critical,digitalSignature") &&
      Extend(made.get(), made.get(), NID_ext_key_usage, "serverAuth") &&
      Extend(made.get(), made.get(), NID_subject_key_identifier, "hash") &&
      Extend(made.get(), certificate_.get(), NID_authority_key_identifier,
             "keyid:always") &&
      SetHostNames(made.get(), names) && Sign(made.get(), *key_);
  if (!filled) return OpensslFault("make a server's certificate");
  return made;
}

// --- files whose mode and owner are right from their first byte on

namespace {

absl::Status Failed(const fs::path& path) {
  return base::ErrnoStatus(errno, path.string());
}

}  // namespace

absl::Status WriteNew(const fs::path& path, std::string_view bytes,
                      mode_t mode) {
  base::UniqueFd fd(open(path.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         kSecretMode));
  if (!fd.valid()) return Failed(path);
  // The umask does not apply to fchmod.
  absl::Status status = fchmod(fd.get(), mode) == 0
                            ? base::WriteAll(fd.get(), bytes, path)
                            : Failed(path);
  fd.reset();
  if (status.ok()) status = base::SyncPath(path, O_RDONLY);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::Status Replace(const fs::path& path, std::string_view bytes,
                     mode_t mode) {
  const fs::path temporary = base::TemporaryBeside(path);
  absl::Status status = WriteNew(temporary, bytes, mode);
  if (!status.ok()) return status;
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    status = Failed(path);
    unlink(temporary.c_str());
    return status;
  }
  return base::SyncPath(path.parent_path(), O_RDONLY | O_DIRECTORY);
}

absl::Status MakePrivateFolder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  const fs::path above = path.parent_path();
  if (above != path) {
    RETURN_IF_ERROR(MakePrivateFolder(above));
  }
  // Another `mpsd tls` may have made it meanwhile.
  if (mkdir(path.c_str(), 0700) != 0 &&
      (errno != EEXIST || !fs::is_directory(path, error))) {
    return Failed(path);
  }
  return absl::OkStatus();
}

void RemoveUnfinished(const fs::path& folder, std::string_view name) {
  const std::string prefix = absl::StrCat(".", std::string(name), ".");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string found = entry.path().filename().string();
    if (base::IsUnfinished(entry.path()) && found.starts_with(prefix)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

AsOwnerOf::AsOwnerOf(fs::path folder) {
  if (geteuid() != 0) return;
  struct stat owner;
  while (stat(folder.c_str(), &owner) != 0) {
    if (!folder.has_relative_path()) return;
    folder = folder.parent_path();
  }
  if (owner.st_uid == 0) return;
  // The group first: another user than root may not change it.
  changed_ = true;
  static_cast<void>(setegid(owner.st_gid) == 0 && seteuid(owner.st_uid) == 0);
}

AsOwnerOf::~AsOwnerOf() {
  if (!changed_) return;
  static_cast<void>(seteuid(0) == 0 && setegid(0) == 0);
}

// --- the folder

namespace {

// Keeps other `mpsd tls` from the state folder while it is open. Unavailable if
// another process has it open.
absl::StatusOr<base::UniqueFd> LockFolder(const fs::path& folder) {
  // A running daemon holds the lock of the folder itself.
  const fs::path file = folder / "tls.lock";
  base::UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Failed(file);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return Failed(folder);
  return absl::UnavailableError(absl::StrCat(
      folder.string(), ": another `mpsd tls` is running; try again"));
}

// The folder while it is made.
constexpr char kStaged[] = "tls-new";
// A certificate this close to its end is worth a warning.
constexpr int kRenewalDays = 30;

// What was read from the file; an error names it.
template <typename T>
absl::StatusOr<T> From(const fs::path& path, absl::StatusOr<T> read) {
  if (read.ok()) return read;
  return absl::Status(
      read.status().code(),
      absl::StrCat(path.string(), ": ", read.status().message()));
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

absl::StatusOr<std::vector<Certificate>> ReadChain(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSmallFile(path, limits::kPemBytes));
  return From(path, certificates::ParseCertificates(pem));
}

absl::StatusOr<Key> ReadKey(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSecretFile(path, limits::kPemBytes));
  return From(path, certificates::ParseKey(pem));
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
  return From(files.authority, Authority::Load(certificate, key));
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
  ASSIGN_OR_RETURN(const std::string chain, CertificatePem(leaf));
  ASSIGN_OR_RETURN(const std::string root,
                   CertificatePem(authority.certificate()));
  return absl::StrCat(chain, root);
}

// --- init

absl::Status WriteFiles(const TlsFiles& files, const Authority& authority,
                        const EVP_PKEY& server_key, const X509& server) {
  ASSIGN_OR_RETURN(const std::string root,
                   CertificatePem(authority.certificate()));
  ASSIGN_OR_RETURN(const std::string root_key, KeyPem(authority.key()));
  ASSIGN_OR_RETURN(const std::string chain, ChainPem(server, authority));
  ASSIGN_OR_RETURN(const std::string key, KeyPem(server_key));
  RETURN_IF_ERROR(WriteNew(files.authority, root, kPublicMode));
  RETURN_IF_ERROR(WriteNew(files.authority_key, root_key, kSecretMode));
  RETURN_IF_ERROR(WriteNew(files.server, chain, kPublicMode));
  RETURN_IF_ERROR(WriteNew(files.server_key, key, kSecretMode));
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
  return WriteFiles(FilesIn(staged), authority, *key, *server);
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
  fs::path former;
  if (Exists(folder)) {
    ASSIGN_OR_RETURN(former, SwapIn(staged, folder, order.now));
  } else {
    std::error_code error;
    fs::rename(staged, folder, error);
    if (error) return base::ErrnoStatus(error.value(), folder.string());
  }
  RETURN_IF_ERROR(base::SyncPath(folder.parent_path(), O_RDONLY | O_DIRECTORY));
  return former;
}

// --- show

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
  TlsState state;
  ASSIGN_OR_RETURN(state.authority,
                   From(files.authority, FactsOf(*authority.front())));
  ASSIGN_OR_RETURN(state.server, From(files.server, FactsOf(*server.front())));
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
  ASSIGN_OR_RETURN(const auto lock, LockFolder(state_dir));
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
  ASSIGN_OR_RETURN(const auto lock, LockFolder(state_dir));
  RemoveUnfinished(files.folder, files.server.filename().string());
  RemoveUnfinished(files.folder, files.server_key.filename().string());
  ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(files));
  ASSIGN_OR_RETURN(std::vector<std::string> names,
                   ServerNames(order.machine, order.names));
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
      authority.IssueServer(**key, names, order.days, order.now);
  if (!server.ok()) return WithAdvice(server.status());
  ASSIGN_OR_RETURN(const std::string chain, ChainPem(**server, authority));
  RETURN_IF_ERROR(Replace(files.server, chain, kPublicMode));
  return Look(state_dir, order.now);
}

}  // namespace mpsd::pki

namespace mpsd::tls {
namespace {

namespace fs = std::filesystem;
using certificates::Certificate;
using certificates::Key;
using Context = std::unique_ptr<SSL_CTX, certificates::Freed<SSL_CTX_free>>;

absl::Status Fault(const fs::path& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", what));
}

// Loads both as a server does.
absl::Status CheckServes(const ServerFiles& files,
                         const std::vector<Certificate>& chain,
                         const Key& key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  bool serves = context != nullptr &&
                SSL_CTX_use_certificate(context.get(), chain[0].get()) == 1;
  for (size_t i = 1; serves && i < chain.size(); ++i) {
    serves = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  serves = serves && SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1;
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  if (serves) return absl::OkStatus();
  return Fault(files.certificate, absl::StrCat("OpenSSL does not serve this "
                                               "certificate: ",
                                               reason ? reason : "no reason"));
}

}  // namespace

absl::StatusOr<ServerPem> ReadServerPem(const ServerFiles& files) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   pki::ReadChain(files.certificate));
  ASSIGN_OR_RETURN(const Key key, pki::ReadKey(files.key));
  const bool is_pair = X509_check_private_key(chain[0].get(), key.get());
  ERR_clear_error();
  if (!is_pair) {
    return Fault(files.key, absl::StrCat("the key is not the one of ",
                                         files.certificate.string()));
  }
  RETURN_IF_ERROR(CheckServes(files, chain, key));
  ASSIGN_OR_RETURN(
      const certificates::CertificateFacts facts,
      pki::From(files.certificate, certificates::FactsOf(*chain[0])));
  ServerPem pem;
  for (const Certificate& certificate : chain) {
    ASSIGN_OR_RETURN(const std::string one,
                     certificates::CertificatePem(*certificate));
    pem.chain += one;
  }
  ASSIGN_OR_RETURN(pem.key, certificates::KeyPem(*key));
  pem.expiry = facts.expiry;
  return pem;
}

}  // namespace mpsd::tls
