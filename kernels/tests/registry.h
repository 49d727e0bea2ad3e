// A test is a function; `TEST(name)` before its body puts it on the list that main runs.
#pragma once

#include <utility>
#include <vector>

using Test = std::pair<const char*, void (*)()>;

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

#define TEST(name)                                                                              \
  static void name();                                                                           \
  [[maybe_unused]] static const bool name##_listed = (tests().emplace_back(#name, name), true); \
  static void name()
