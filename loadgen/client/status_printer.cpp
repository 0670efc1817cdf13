// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/status_printer.hpp"

#include <unistd.h>

namespace troupe::loadgen {

constexpr std::chrono::seconds kPlainPeriod{10};

StatusPrinter::StatusPrinter(std::FILE* out) : out_(out), is_terminal_(::isatty(::fileno(out)) == 1) {}

void StatusPrinter::print(const LiveStatus& status) {
  if (is_terminal_) {
    std::fprintf(out_, "\r\x1b[2K%s", status_line(status).c_str());
    has_line_ = true;
  } else if (status.elapsed >= next_) {
    next_ = status.elapsed + kPlainPeriod;
    std::fprintf(out_, "%s\n", status_line(status).c_str());
  }
  std::fflush(out_);
}

void StatusPrinter::finish() {
  if (has_line_) std::fputc('\n', out_);
  has_line_ = false;
}

}  // namespace troupe::loadgen
