// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mpsd::host {

using Environment = std::map<std::string, std::string>;

// The environment of this process.
Environment CurrentEnvironment();

// The variables of `base` that a worker may have: those that locate programs,
// folders, libraries and a language's fonts, and those that configure torch,
// its devices and the Hugging Face cache. Everything else, such
// as tokens, cloud keys, agents' sockets and mpsd's own variables, is excluded,
// because a worker reads files that strangers sent. IsKeptForWorker has the
// list.
Environment WithoutSecrets(const Environment& base);

// Whether WithoutSecrets keeps a variable of this name.
bool IsKeptForWorker(std::string_view name);

// `base` with the settings that a worker needs for torch's Metal backend and
// Apple's GPU driver; a variable that `base` sets keeps its value. torch reads
// these once, at load, so they must be set when the process starts:
//
//   PYTORCH_MPS_HIGH_WATERMARK_RATIO 0.95, …_LOW_… 0.75: shares of the GPU
//     memory that the machine recommends. With torch's defaults, 1.7 and 1.4,
//     the machine swaps instead of the job failing. A low mark above the high
//     one, which torch refuses, is lowered to the high one.
//   PYTORCH_ENABLE_MPS_FALLBACK 0, or 1 with `allow_cpu_fallback`: whether an
//     operator that Metal lacks runs on the CPU or fails the job. A value that
//     is not a number is replaced, because torch would abort at load.
//   PYTORCH_MPS_FAST_MATH 0.
//   AGX_RELAX_CDM_CTXSTORE_TIMEOUT 1: the driver's watchdog does not abort long
//     command buffers for the display ("Impacting Interactivity").
//   OMP_WAIT_POLICY PASSIVE: on a shared machine, OpenMP's spinning threads
//     slow each other down by orders of magnitude.
Environment WorkerEnvironment(Environment base,
                              bool allow_cpu_fallback = false);

// Whether a variable makes two machines, or a service and its worker, train
// differently: the threads of OpenMP and MKL, torch's switches, what the
// dynamic linker and Python load, the locale, and cache locations.
bool Matters(std::string_view name);

// The variables of `all` that matter; a value that may be a secret is replaced
// by "set", so that it leaves neither the process nor the machine.
Environment ThoseThatMatter(const Environment& all);

// Whether a variable may hold a secret: by its name (HF_TOKEN), or because its
// value contains a URL with a password.
bool MayBeSecret(std::string_view name, std::string_view value);

}  // namespace mpsd::host
