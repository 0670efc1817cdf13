// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "telemetry/log_writer.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;

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

// What an action writes to standard error, line by line.
template <class Action>
std::vector<std::string> logged_by(LogFormat format, Action action) {
  Pipe pipe;
  flush_log(std::chrono::seconds(10));
  const int before = ::dup(STDERR_FILENO);
  ::dup2(pipe.input(), STDERR_FILENO);
  configure_logging(LogLevel::kInfo, format);
  action();
  const bool is_written = flush_log(std::chrono::seconds(10));
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  configure_logging(LogLevel::kInfo, LogFormat::kText);
  REQUIRE(is_written);
  std::vector<std::string> lines;
  std::istringstream text(pipe.read_all());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

const std::vector<std::string> kHostile = {"two\nlines",
                                           "\"},{\"level\":\"error\"",
                                           "\x1b[31mred",
                                           "\xC2\x9B"
                                           "31m",
                                           "back\\slash",
                                           std::string(1, '\0'),
                                           "\xFF\xFE",
                                           "tab\there",
                                           "a=b c=d",
                                           "caf\xC3\xA9",
                                           "\xED\xA0\x80 lonely",
                                           ""};

TEST_CASE("log: as JSON every line is one object, whatever the values are") {
  for (const auto& value : kHostile) {
    CAPTURE(value);
    const auto lines = logged_by(LogFormat::kJson, [&] {
      log(LogLevel::kInfo, "event", {{"request_id", value}, {"count", 3}, {"ms", 0.5}});
    });
    REQUIRE(lines.size() == 1);
    const auto parsed = nlohmann::json::parse(lines[0]);
    CHECK(parsed.at("event") == "event");
    CHECK(parsed.at("level") == "info");
    CHECK(parsed.at("count") == 3);
    CHECK(parsed.at("ms") == 0.5);
    CHECK(lines[0].find('\x1b') == std::string::npos);
    const bool is_clean = value == "back\\slash" || value == "two\nlines" || value == "caf\xC3\xA9";
    if (is_clean) CHECK(parsed.at("request_id") == value);
  }
}

TEST_CASE("log: as text no value can begin a line, a field or a colour") {
  for (const auto& value : kHostile) {
    CAPTURE(value);
    const auto lines = logged_by(LogFormat::kText, [&] { log(LogLevel::kInfo, "event", {{"id", value}}); });
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find('\x1b') == std::string::npos);
    CHECK(lines[0].find("\xC2\x9B") == std::string::npos);
    CHECK(lines[0].find(" id=\"") != std::string::npos);  // quoted, all of these
  }
  CHECK(logged_by(LogFormat::kText,
                  [] {
                    log(LogLevel::kInfo, "event", {{"id", "req-1"}});
                  })
            .at(0)
            .ends_with("info event id=req-1"));
}

TEST_CASE("log: numbers that JSON does not have are strings") {
  const auto lines = logged_by(LogFormat::kJson, [] { log(LogLevel::kInfo, "e", {{"x", 1.0 / 0.0}}); });
  CHECK(nlohmann::json::parse(lines.at(0)).at("x") == "inf");
}

TEST_CASE("log writer: nobody reads: lines are dropped, counted, and nobody waits") {
  constexpr std::size_t kBound = 16384;
  constexpr int kLines = 100'000;
  Pipe pipe;
  ::fcntl(pipe.input(), F_SETPIPE_SZ, 4096);  // less than the bound: writing blocks
  std::string text;
  {
    LogWriter writer(pipe.input(), kBound);
    for (int i = 0; i < kLines; ++i) writer.put("line\n");
    CHECK_FALSE(writer.flush(milliseconds(1)));
    // Now somebody does; the pipe is empty once all is written.
    ::fcntl(pipe.input(), F_SETPIPE_SZ, 1 << 20);
    CHECK(writer.flush(std::chrono::seconds(10)));
    writer.put("last\n");
    CHECK(writer.flush(std::chrono::seconds(10)));
  }
  text = pipe.read_all();
  CHECK(text.ends_with("last\n"));
  const auto at = text.find(" log lines were dropped");
  REQUIRE(at != std::string::npos);
  int num_written = 0;
  int num_dropped = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    num_written += line == "line" ? 1 : 0;
    if (line.starts_with("(")) num_dropped += std::stoi(line.substr(1));
  }
  CHECK(num_written + num_dropped == kLines);
}

TEST_CASE("log writer: a descriptor that is closed loses lines and nothing else") {
  LogWriter writer(-1);
  writer.put("line\n");
  CHECK(writer.flush(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace troupe
