// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_GOLDEN_ENVIRONMENT_H_
#define MPSD_CORE_HOST_GOLDEN_ENVIRONMENT_H_

#include <string_view>

#include "core/host/environment.h"

// Environment variables that make two machines, or a service and its worker,
// train differently: the threads of OpenMP and MKL, torch's switches, what the
// dynamic linker and Python load, the locale, and cache locations.
namespace mpsd::host {

bool Matters(std::string_view name);

// The variables of `all` that matter; a value that may be a secret is replaced
// by "set", so that it leaves neither the process nor the machine.
Environment ThoseThatMatter(const Environment& all);

// Whether a variable may hold a secret: by its name (HF_TOKEN), or because its
// value contains a URL with a password.
bool MayBeSecret(std::string_view name, std::string_view value);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_GOLDEN_ENVIRONMENT_H_
