// What the tests ask the operating system about this process, and children to try things in.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/check.h"

// Runs `body` in a forked process, which must end by itself within some seconds; whether it returned true.
template <typename Body>
bool holds_in_child(Body body, unsigned seconds = 60) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(seconds);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Bytes of physical memory that the pages of a range use.
inline int64_t resident(const std::byte* begin, int64_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = address / page * page;
  const std::uintptr_t length = address + static_cast<std::uintptr_t>(bytes) - first;
#ifdef __APPLE__
  std::vector<char> pages((length + page - 1) / page);
#else
  std::vector<unsigned char> pages((length + page - 1) / page);
#endif
  CHECK(mincore(reinterpret_cast<void*>(first), length, pages.data()) == 0);
  const auto used = std::count_if(pages.begin(), pages.end(), [](auto state) { return (state & 1) != 0; });
  return static_cast<int64_t>(used) * static_cast<int64_t>(page);
}

#ifdef __linux__
// A count of /proc/self/status in bytes: VmSize of the addresses that are mapped, VmData of those for private data.
inline int64_t mapped(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word == name + ":") {
      int64_t kibibytes = 0;
      file >> kibibytes;
      return kibibytes * 1024;
    }
  }
  CHECK(false);
}
#endif
