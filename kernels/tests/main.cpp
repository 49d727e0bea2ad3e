#include <cstdio>

#include "tests/registry.h"

int main() {
  for (const auto& [name, run] : tests()) {
    std::printf("%s\n", name);
    std::fflush(stdout);
    run();
  }
  std::printf("%zu tests passed\n", tests().size());
  return tests().empty() ? 1 : 0;
}
