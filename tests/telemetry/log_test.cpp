// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "telemetry/log_writer.hpp"
#include "tests/support/observability/logged_lines.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using test::logged_by;
using test::Pipe;

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

TEST_CASE("log: a line is of one format, though another thread changes it all the time") {
  constexpr int kNumLines = 600;  // as many as the pipe holds
  const auto lines = logged_by(LogFormat::kText, [] {
    std::atomic<bool> is_over = false;
    std::thread changing([&is_over] {
      for (bool is_json = true; !is_over; is_json = !is_json)
        configure_logging(LogLevel::kInfo, is_json ? LogFormat::kJson : LogFormat::kText);
    });
    for (int i = 0; i < kNumLines; ++i) log(LogLevel::kInfo, "event", {{"count", i}});
    is_over = true;
    changing.join();
  });
  REQUIRE(lines.size() == kNumLines);
  for (const auto& line : lines) {
    CAPTURE(line);
    const bool is_json = line.starts_with("{") && line.find("\"event\":\"event\"") != std::string::npos;
    const bool is_text = !line.starts_with("{") && line.find(" event count=") != std::string::npos;
    REQUIRE((is_json || is_text));
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
