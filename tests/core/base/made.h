// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

// What the tests of certificates share.
namespace mpsd::certificates {

inline void WriteText(const std::filesystem::path& path,
                      const std::string& text) {
  std::ofstream(path) << text;
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What a shell's command writes, errors too.
inline std::string Said(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  pclose(pipe);
  return text;
}

// A certificate that openssl makes, signed by itself, in PEM. `options` are
// those of `openssl req`.
inline std::string SelfSigned(const std::filesystem::path& folder,
                              const std::string& options) {
  const std::string made = "'" + (folder / "made.crt").string() +
                           "' -keyout '" + (folder / "made.key").string() +
                           "' ";
  Said(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
      "-out " +
      made + options);
  return ReadText(folder / "made.crt");
}

}  // namespace mpsd::certificates
