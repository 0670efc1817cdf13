// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/csv_trace.hpp"

#include <charconv>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/traces/csv_reader.hpp"
#include "loadgen/workload/traces/single_turn.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;

struct CsvTraceFormat {
  std::string time_column;
  std::string prompt_column;
  std::string output_column;
  // On any clock; nothing if it is no time.
  std::function<std::optional<nanoseconds>(std::string_view)> parse_time;
  std::string expected_time;  // for messages
};

enum Column : std::size_t { kTime, kPrompt, kOutput };

class CsvTrace final : public ConversationSource {
 public:
  CsvTrace(TraceInput input, CsvTraceFormat format)
      : format_(std::move(format)),
        rows_(std::move(input), {format_.time_column, format_.prompt_column, format_.output_column}) {}

  bool next(PlannedConversation& conversation) override {
    while (rows_.next_row()) {
      const auto time = format_.parse_time(rows_.text(kTime));
      if (!time) rows_.fail(kTime, format_.expected_time);
      const auto start = clock_.since_begin(*time, rows_.input());
      const std::uint32_t prompt_tokens = rows_.count(kPrompt);
      const std::uint32_t output_tokens = rows_.count(kOutput);
      if (output_tokens > 0) {
        plan_single_turn(conversation, start, prompt_tokens, output_tokens);
        return true;
      }
      ++num_unanswered_;
    }
    return false;
  }

  std::vector<std::string> warnings() const override {
    return unanswered_warning(rows_.input().name(), num_unanswered_);
  }

 private:
  CsvTraceFormat format_;
  CsvReader rows_;
  TraceClock clock_;
  std::uint64_t num_unanswered_ = 0;
};

std::optional<nanoseconds> parse_seconds(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds < kEndOfTimeS))
    return std::nullopt;
  return seconds_to_nanoseconds(seconds);
}

// A number of exactly so many digits at the front, which is then taken away.
std::optional<int> take_digits(std::string_view& text, std::size_t num_digits, std::string_view separators) {
  int value = 0;
  if (text.size() < num_digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + num_digits, value);
  if (error != std::errc{} || end != text.data() + num_digits || value < 0 || text.front() == '-')
    return std::nullopt;
  text.remove_prefix(num_digits);
  if (separators.empty()) return value;
  if (text.empty() || separators.find(text.front()) == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

// ".6805900": up to nine digits; none is no fraction.
std::optional<nanoseconds> take_fraction(std::string_view& text) {
  if (!text.starts_with('.')) return nanoseconds(0);
  text.remove_prefix(1);
  std::int64_t value = 0;
  std::size_t num_digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (++num_digits > 9) return std::nullopt;
    value = value * 10 + (text.front() - '0');
  }
  if (num_digits == 0) return std::nullopt;
  for (; num_digits < 9; ++num_digits) value *= 10;
  return nanoseconds(value);
}

// "", "Z", "+00:00" or "-07:00".
std::optional<std::chrono::minutes> take_zone(std::string_view text) {
  if (text.empty() || text == "Z") return std::chrono::minutes(0);
  const int sign = text.front() == '-' ? -1 : 1;
  if (text.front() != '-' && text.front() != '+') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2, ":");
  const auto minutes = hours ? take_digits(text, 2, "") : std::nullopt;
  if (!minutes || !text.empty() || *hours > 14 || *minutes > 59) return std::nullopt;
  return std::chrono::minutes(sign * (*hours * 60 + *minutes));
}

std::unique_ptr<ConversationSource> read_csv_trace(TraceInput input, CsvTraceFormat format) {
  return std::make_unique<CsvTrace>(std::move(input), std::move(format));
}

}  // namespace

std::unique_ptr<ConversationSource> read_burstgpt_trace(TraceInput input) {
  return read_csv_trace(std::move(input), {.time_column = "Timestamp",
                                           .prompt_column = "Request tokens",
                                           .output_column = "Response tokens",
                                           .parse_time = parse_seconds,
                                           .expected_time = "seconds of at least 0"});
}

std::unique_ptr<ConversationSource> read_azure_trace(TraceInput input) {
  return read_csv_trace(std::move(input), {.time_column = "TIMESTAMP",
                                           .prompt_column = "ContextTokens",
                                           .output_column = "GeneratedTokens",
                                           .parse_time = parse_timestamp,
                                           .expected_time = "a time like 2023-11-16 18:15:46.6805900"});
}

std::optional<nanoseconds> parse_timestamp(std::string_view text) {
  namespace chrono = std::chrono;
  const auto year = take_digits(text, 4, "-");
  const auto month = year ? take_digits(text, 2, "-") : std::nullopt;
  const auto day = month ? take_digits(text, 2, " T") : std::nullopt;
  const auto hour = day ? take_digits(text, 2, ":") : std::nullopt;
  const auto minute = hour ? take_digits(text, 2, ":") : std::nullopt;
  const auto second = minute ? take_digits(text, 2, "") : std::nullopt;
  const auto fraction = second ? take_fraction(text) : std::nullopt;
  const auto zone = fraction ? take_zone(text) : std::nullopt;
  if (!zone || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const chrono::year_month_day date(chrono::year(*year), chrono::month(static_cast<unsigned>(*month)),
                                    chrono::day(static_cast<unsigned>(*day)));
  // Nanoseconds since 1970 fit 64 bits until 2262.
  if (!date.ok() || *year < 1970 || *year > 2261) return std::nullopt;
  return chrono::sys_days(date).time_since_epoch() + chrono::hours(*hour) + chrono::minutes(*minute) +
         chrono::seconds(*second) + *fraction - *zone;
}

}  // namespace troupe::loadgen
