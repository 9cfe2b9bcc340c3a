// SPDX-License-Identifier: Apache-2.0
#include "client/refusal.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/format.h"
#include "core/certificates/certificate_facts.h"
#include "core/certificates/pem.h"

namespace mpsd::client {
namespace {

using certificates::CertificateFacts;
using certificates::FactsOf;

constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr size_t kMostNames = 20;

bool IsPort(const Address& address) {
  return address.socket_path.empty() && address.tunnel == nullptr;
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

std::string Names(const CertificateFacts& facts) {
  if (facts.names.empty()) return "no host at all";
  std::vector<std::string> some = facts.names;
  const bool more = some.size() > kMostNames;
  if (more) some.resize(kMostNames);
  return absl::StrCat(absl::StrJoin(some, ", "), more ? ", …" : "");
}

std::string FingerprintOf(const std::string& pem) {
  const auto chain = certificates::ParseCertificates(pem);
  if (!chain.ok()) return "-";
  const auto facts = FactsOf(*chain->front());
  return facts.ok() ? facts->fingerprint : "-";
}

Refusal OtherAuthority(const HostPort& place, const CertificateFacts& authority,
                       const std::string& roots_pem,
                       const std::string& context) {
  const std::string at = place.Text();
  if (context.empty()) {
    return {ExitCode::kNotLetIn,
            absl::StrCat("the certificate of mpsd at ", at,
                         " leads to no authority that this machine trusts"),
            absl::StrCat("`mpsctl login ", at,
                         "` shows its fingerprint and asks whether to trust "
                         "it.")};
  }
  return {
      ExitCode::kNotLetIn,
      absl::StrCat("the certificate of mpsd at ", at,
                   " is not of the authority that the context ", context,
                   " trusts: its fingerprint is ", authority.fingerprint,
                   ", expected ", FingerprintOf(roots_pem)),
      absl::StrCat("Either somebody is between you and mpsd, or mpsd has a new "
                   "authority: ask its admin for the fingerprint (`mpsd tls "
                   "show`). If it is the new one: `mpsctl login ",
                   at, " --name ", context, "`.")};
}

}  // namespace

std::optional<Refusal> WhyNoTls(const HostPort& place, const Probe& probe) {
  const std::string at = place.Text();
  const std::string cannot = absl::StrCat("cannot reach mpsd at ", at, ": ");
  switch (probe.found) {
    case Found::kUnknownHost:
      return Refusal{ExitCode::kUnreachable,
                     absl::StrCat(cannot, "no host has the name '", place.host,
                                  "' (", probe.why, ")"),
                     "Check the name and this machine's network."};
    case Found::kUnreachable:
      return Refusal{ExitCode::kUnreachable, absl::StrCat(cannot, probe.why),
                     "Check that mpsd runs there with --listen on this port, "
                     "and that no firewall is between."};
    case Found::kSilent:
      return Refusal{ExitCode::kUnreachable, absl::StrCat(cannot, probe.why),
                     "Something accepts connections there and says nothing: "
                     "is it mpsd, and does it hang? log/mpsd.log in its state "
                     "folder tells more."};
    case Found::kNoTls:
      return Refusal{
          ExitCode::kUnreachable,
          absl::StrCat(cannot, "what answers there does not speak TLS 1.3 (",
                       probe.why, ")"),
          "mpsctl speaks to other machines by TLS alone. Check that this is "
          "the port of mpsd's --listen and that mpsd has certificates (`mpsd "
          "tls init`)."};
    case Found::kTls:
      break;
  }
  return std::nullopt;
}

std::optional<Refusal> WhyNoTrust(const HostPort& place, const Chain& chain,
                                  const Verdict& verdict,
                                  const std::string& roots_pem,
                                  const std::string& context) {
  if (verdict.trust == Trust::kTrusted) return std::nullopt;
  const std::string of =
      absl::StrCat("the certificate of mpsd at ", place.Text(), " ");
  Refusal broken = {ExitCode::kNotLetIn,
                    absl::StrCat(of, "is not valid: ", verdict.why),
                    "Its admin can look at it with `mpsd tls show`."};
  if (chain.empty()) return broken;
  const auto facts = FactsOf(*chain.front());
  const auto authority = FactsOf(*chain.back());
  if (!facts.ok() || !authority.ok()) return broken;
  const bool begins_later = verdict.trust == Trust::kNotYetValid;
  switch (verdict.trust) {
    case Trust::kOtherAuthority:
      return OtherAuthority(place, *authority, roots_pem, context);
    case Trust::kExpired:
    case Trust::kNotYetValid:
      return Refusal{
          ExitCode::kNotLetIn,
          begins_later
              ? absl::StrCat(of, "is valid from ", Day(facts->begin), " on")
              : absl::StrCat(of, "expired on ",
                             Day(std::min(facts->expiry, authority->expiry))),
          "Its admin renews it with `mpsd tls renew`; or this machine's clock "
          "is wrong."};
    case Trust::kWrongName:
      return Refusal{
          ExitCode::kNotLetIn,
          absl::StrCat(of, "is not for '", place.host, "', but for ",
                       Names(*facts)),
          absl::StrCat("Use one of these names, or have the admin add this one "
                       "(`mpsd tls renew --name ",
                       place.host, "`).")};
    default:
      return broken;
  }
}

std::optional<Refusal> WhyUnreachable(const Address& address, absl::Time now) {
  if (!IsPort(address)) return std::nullopt;
  const absl::StatusOr<HostPort> place = ParseHostPort(address.target);
  if (!place.ok()) return std::nullopt;
  const Credentials& own = address.credentials;
  const Probe probe = ProbeServer(*place, kPatience);
  if (!own.tls) {
    if (probe.found != Found::kTls) return std::nullopt;
    return Refusal{
        ExitCode::kNotLetIn,
        absl::StrCat("mpsd at ", place->Text(),
                     " speaks TLS, and no context says whom to trust there"),
        absl::StrCat("Log in first: `mpsctl login ", place->Text(), "`.")};
  }
  if (auto refusal = WhyNoTls(*place, probe)) return refusal;
  const Verdict verdict = Judge(probe.chain, own.roots_pem, place->host, now);
  if (auto refusal = WhyNoTrust(*place, probe.chain, verdict, own.roots_pem,
                                own.context)) {
    return refusal;
  }
  return std::nullopt;
}

std::string HowToBeLetIn(const Address& address, grpc::StatusCode code) {
  if (code == grpc::StatusCode::PERMISSION_DENIED) {
    return "`mpsctl info` shows who you are; an admin gives a higher role.";
  }
  if (!IsPort(address)) return "";
  const Credentials& own = address.credentials;
  if (own.token.empty()) {
    return absl::StrCat("Log in first: `mpsctl login ", address.target,
                        "`, with a token that an admin makes (`mpsctl token "
                        "create`).");
  }
  return absl::StrCat(
      own.context.empty()
          ? "The token in MPSD_TOKEN"
          : absl::StrCat("The token of the context ", own.context),
      " has expired or was revoked: ask an admin for a new one (`mpsctl token "
      "create --user NAME`), then `mpsctl login ",
      address.target, own.context.empty() ? "" : " --name ", own.context, "`.");
}

}  // namespace mpsd::client
