// SPDX-License-Identifier: Apache-2.0
// A disk that refuses writes behind a place of each file, and is well again at the end. The
// kernel's own limit stands in for it.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstddef>

#include <doctest/doctest.h>

namespace troupe::test {

class FailingDisk {
 public:
  // num_bytes: of each file that can still be written.
  explicit FailingDisk(std::size_t num_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit tight{.rlim_cur = num_bytes, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  }
  ~FailingDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace troupe::test
