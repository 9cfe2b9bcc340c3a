// SPDX-License-Identifier: Apache-2.0
// Writes the page of the run document on stdin to stdout, for browser_test.mjs.
#include <iostream>
#include <iterator>
#include <string>

#include "core/report/run_page.h"

int main() {
  const std::string document(std::istreambuf_iterator<char>(std::cin), {});
  std::cout << mpsd::run_page::RunPage(document) << std::flush;
  return std::cout.good() ? 0 : 1;
}
