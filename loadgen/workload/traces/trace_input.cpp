// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/trace_input.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 20;
constexpr int kEnd = std::char_traits<char>::eof();

}  // namespace

TraceInput::TraceInput(std::unique_ptr<std::istream> in, std::string name)
    : in_(std::move(in)), name_(std::move(name)) {
  for (const int mark : {0xEF, 0xBB, 0xBF})
    if (in_->rdbuf()->sgetc() == mark) in_->rdbuf()->sbumpc();
}

bool TraceInput::next_line(std::string& line) {
  line.clear();
  int c = next_character();
  while (c == '\n' || c == '\r') c = next_character();
  for (; c != kEnd && c != '\n'; c = next_character()) {
    if (line.size() == kMaxLineBytes) fail("expected lines of text, got one of more than 64 MiB");
    line += static_cast<char>(c);
  }
  if (line.ends_with('\r')) line.pop_back();
  return !line.empty();
}

int TraceInput::next_character() {
  // The line counts on when the next one begins, so that messages about a line
  // just read name that one.
  if (is_at_line_end_) ++line_;
  const int c = in_->rdbuf()->sbumpc();
  is_at_line_end_ = c == '\n';
  return c;
}

void TraceInput::fail(const std::string& what) const { throw std::runtime_error(place() + ": " + what); }

TraceInput open_trace_input(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw std::runtime_error(path + ": expected a file, got a directory");
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) throw std::runtime_error(path + ": cannot be opened");
  return {std::move(file), path};
}

std::chrono::nanoseconds TraceClock::since_begin(std::chrono::nanoseconds time, const TraceInput& input) {
  using Seconds = std::chrono::duration<double>;
  if (!first_) {
    first_ = time;
  } else if (time < last_) {
    input.fail("expected times that never decrease, got one " + number_text(Seconds(last_ - time).count()) +
               " s before that of the request before");
  }
  last_ = time;
  return time - *first_;
}

}  // namespace troupe::loadgen
