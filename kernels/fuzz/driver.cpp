// Runs a fuzzer without libFuzzer, for compilers that have none: cases at random, and changes of earlier ones.
//
//     arena_fuzz [-runs=N] [-max_total_time=SECONDS] [-seed=N] [FILE...]
//
// The flags are those of libFuzzer. With files, only those are run. A case that ends the program is written to the
// working directory as `crash`.
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "fuzz/bytes.h"

// Of a sanitizer, where the program is built with one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

constexpr std::size_t kMostKept = 256;
constexpr std::size_t kMostBytes = 4096;

std::vector<std::uint8_t> present;

void keep_present() {
  std::ofstream file("crash", std::ios::binary);
  file.write(reinterpret_cast<const char*>(present.data()), static_cast<std::streamsize>(present.size()));
  std::fprintf(stderr, "the case of %zu bytes is in ./crash\n", present.size());
}

void on_signal(int) {
  keep_present();
  std::_Exit(1);
}

std::int64_t flag(const std::string& text, const std::string& name, std::int64_t otherwise) {
  const std::string begin = "-" + name + "=";
  return text.starts_with(begin) ? std::stoll(text.substr(begin.size())) : otherwise;
}

void run(const std::vector<std::uint8_t>& data) {
  present = data;
  LLVMFuzzerTestOneInput(present.data(), present.size());
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : engine_(seed) {}

  std::vector<std::uint8_t> next() {
    std::vector<std::uint8_t> data;
    if (!kept_.empty() && below(4) != 0) data = kept_[below(kept_.size())];
    if (data.empty()) {
      data.resize(1 + below(600));
      for (std::uint8_t& octet : data) octet = static_cast<std::uint8_t>(below(256));
    }
    for (std::size_t k = below(6); k > 0; --k) change(data);
    if (data.size() > kMostBytes) data.resize(kMostBytes);
    if (kept_.size() < kMostKept) {
      kept_.push_back(data);
    } else {
      kept_[below(kMostKept)] = data;
    }
    return data;
  }

 private:
  std::size_t below(std::size_t limit) { return engine_() % limit; }

  void change(std::vector<std::uint8_t>& data) {
    const std::size_t at = below(data.size() + 1);
    const auto place = data.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t kind = below(5);
    if (kind < 2 && at < data.size()) {
      data[at] = static_cast<std::uint8_t>(below(256));
    } else if (kind == 2 && at < data.size()) {
      data.erase(place);
    } else if (kind == 3) {
      data.insert(place, static_cast<std::uint8_t>(below(256)));
    } else if (!kept_.empty()) {
      const auto& other = kept_[below(kept_.size())];
      const std::size_t begin = below(other.size() + 1);
      const std::size_t end = begin + below(other.size() - begin + 1);
      const std::vector<std::uint8_t> piece(other.begin() + static_cast<std::ptrdiff_t>(begin),
                                            other.begin() + static_cast<std::ptrdiff_t>(end));
      data.insert(place, piece.begin(), piece.end());
    }
    if (data.empty()) data.push_back(0);
  }

  std::mt19937_64 engine_;
  std::vector<std::vector<std::uint8_t>> kept_;
};

}  // namespace

int main(int count, char** arguments) {
  std::int64_t runs = INT64_MAX;
  std::int64_t seconds = INT64_MAX;
  std::int64_t seed = 1;
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_present);
  std::signal(SIGABRT, on_signal);
  std::int64_t done = 0;
  for (int k = 1; k < count; ++k) {
    const std::string text = arguments[k];
    if (!text.starts_with("-")) {
      std::ifstream file(text, std::ios::binary);
      run({std::istreambuf_iterator<char>(file), {}});
      ++done;
    }
    runs = flag(text, "runs", runs);
    seconds = flag(text, "max_total_time", seconds);
    seed = flag(text, "seed", seed);
  }
  if (done > 0) return 0;
  Mutator mutator(static_cast<std::uint64_t>(seed));
  const auto begin = std::chrono::steady_clock::now();
  while (done < runs &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(std::min<std::int64_t>(seconds, 1 << 30))) {
    run(mutator.next());
    ++done;
  }
  std::printf("%lld cases\n", static_cast<long long>(done));
  return 0;
}
