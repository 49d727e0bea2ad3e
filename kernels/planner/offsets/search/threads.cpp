#include "planner/offsets/search/threads.h"

#include <cstddef>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace edgemem::offset_search {

void side_by_side(int count, const std::function<void(int)>& task) {
  const auto tasks = static_cast<std::size_t>(count);
  std::vector<std::exception_ptr> errors(tasks);
  std::vector<char> again(tasks, 0);  // a byte each: every thread writes its own
  const auto attempt = [&](std::size_t k) {
    try {
      task(static_cast<int>(k));
    } catch (const std::bad_alloc&) {
      again[k] = 1;
    } catch (...) {
      errors[k] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(tasks);
  for (std::size_t k = 1; k < tasks; ++k) {
    try {
      threads.emplace_back(attempt, k);
    } catch (const std::system_error&) {
      again[k] = 1;
    } catch (const std::bad_alloc&) {
      again[k] = 1;
    }
  }
  attempt(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (std::size_t k = 0; k < tasks; ++k) {
    if (again[k] != 0) task(static_cast<int>(k));
  }
}

}  // namespace edgemem::offset_search
