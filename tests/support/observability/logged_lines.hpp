// SPDX-License-Identifier: Apache-2.0
// Reads what is logged: standard error is a pipe while an action runs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "telemetry/log.hpp"

namespace troupe::test {

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  int input() const { return ends_[1]; }
  // All there is, until everybody has closed the input.
  std::string read_all() {
    ::close(ends_[1]);
    ends_[1] = -1;
    std::string text;
    std::array<char, 4096> buffer{};
    for (auto got = ::read(ends_[0], buffer.data(), buffer.size()); got > 0;
         got = ::read(ends_[0], buffer.data(), buffer.size()))
      text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Lines that an action writes to standard error, from level info on. One thread.
std::vector<std::string> logged_by(LogFormat format, const std::function<void()>& action);

}  // namespace troupe::test
