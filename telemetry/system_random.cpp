// SPDX-License-Identifier: Apache-2.0
#include "telemetry/system_random.hpp"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kNumbersAtOnce = 64;

struct Pool {
  std::array<std::uint64_t, kNumbersAtOnce> numbers{};
  std::size_t num_left = 0;
};

void fill(Pool& pool) {
  auto* bytes = reinterpret_cast<char*>(pool.numbers.data());
  for (std::size_t num = 0; num < sizeof pool.numbers;) {
    const ssize_t got = ::getrandom(bytes + num, sizeof pool.numbers - num, 0);
    if (got > 0) num += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  pool.num_left = kNumbersAtOnce;
}

}  // namespace

std::uint64_t system_random() {
  thread_local Pool pool;
  if (pool.num_left == 0) fill(pool);
  return std::exchange(pool.numbers[--pool.num_left], 0);  // no copy stays behind
}

}  // namespace troupe
