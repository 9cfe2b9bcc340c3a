// SPDX-License-Identifier: Apache-2.0
#include "server/access/role_policy.h"

#include <algorithm>

namespace mpsd::access {
namespace {

constexpr uid_t kRoot = 0;

bool Has(const std::vector<std::string>& names, const std::string& user) {
  return std::find(names.begin(), names.end(), user) != names.end();
}

}  // namespace

Role RolePolicy::OfAccount(uid_t uid, const std::string& user) const {
  if (uid == owner || uid == kRoot || Has(admins, user)) return Role::kAdmin;
  return Has(viewers, user) ? Role::kViewer : Role::kUser;
}

}  // namespace mpsd::access
