// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "loadgen/client/http/completion_record.hpp"
#include "loadgen/client/load_driver.hpp"
#include "loadgen/client/server/null_server.hpp"
#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Chunks of one stream come as fast as from a fast server.
constexpr milliseconds kChunkGap{10};
constexpr std::uint32_t kChunksPerAnswer = 20;
// A step in which less than this share of the load came about shows the limit
// of the null server, or of the machine.
constexpr double kEnough = 0.9;
// Of a load, before it counts as too much: others may have had the cores.
constexpr int kTries = 3;

struct Ladder {
  double lowest, highest, factor;
  milliseconds step;
};

// Equal requests at equal gaps.
class EqualRequests final : public ConversationSource {
 public:
  EqualRequests(nanoseconds gap, nanoseconds end, std::uint32_t num_chunks) : gap_(gap), end_(end) {
    turn_.output_tokens = num_chunks;
  }
  bool next(PlannedConversation& conversation) override {
    conversation.start = gap_ * static_cast<std::int64_t>(number_);
    conversation.number = number_++;
    conversation.turns = {turn_};
    return conversation.start < end_;
  }

 private:
  nanoseconds gap_;
  nanoseconds end_;
  PlannedTurn turn_;
  std::uint64_t number_ = 0;
};

nanoseconds percentile(std::vector<nanoseconds>& values, std::size_t percent) {
  if (values.empty()) return nanoseconds(0);
  const auto rank = values.begin() + static_cast<std::ptrdiff_t>(values.size() * percent / 100);
  std::nth_element(values.begin(), rank, values.end());
  return *rank;
}

// From the server's notes to the client's stamps, chunk by chunk.
std::vector<nanoseconds> chunk_delays(const LoadRun& run, const NullServer::SendTimes& sent) {
  std::vector<nanoseconds> delays;
  for (const auto& record : run.result.records) {
    const auto found = sent.find(request_id(record.conversation, record.turn));
    if (found == sent.end() || record.first_token == nanoseconds(0)) continue;
    auto stamp = run.begin + record.first_token;
    for (std::size_t i = 0; i < found->second.size() && i <= record.gaps_us.size(); ++i) {
      if (i > 0) stamp += microseconds(record.gaps_us[i - 1]);
      delays.push_back(stamp - found->second[i]);
    }
  }
  return delays;
}

LoadSettings settings_for(const NullServer& server, milliseconds duration) {
  LoadSettings settings;
  settings.client.server.port = server.port();
  settings.client.timeout = std::chrono::seconds(5);
  settings.sampling.model = "null";
  settings.duration = duration;
  settings.plan_fills_duration = true;
  settings.drain_grace = std::chrono::seconds(1);
  return settings;
}

// All requests are intended within `duration`, and the last answer ends
// `answer_time` later, unless something could not keep up.
CalibrationStep measure(const LoadRun& run, const NullServer::SendTimes& sent, nanoseconds duration,
                        nanoseconds answer_time) {
  const auto taken = std::max(duration, run.result.duration - answer_time);
  const double seconds = std::chrono::duration<double>(taken).count();
  auto delays = chunk_delays(run, sent);
  const auto num_completed = std::count_if(run.result.records.begin(), run.result.records.end(),
                                           [](const auto& r) { return r.outcome == Outcome::kCompleted; });
  return {.requests_per_second = static_cast<double>(num_completed) / seconds,
          .chunks_per_second = static_cast<double>(delays.size()) / seconds,
          .start_delay_p99 = run.start_delay_p99,
          .chunk_delay_p50 = percentile(delays, 50),
          .chunk_delay_p99 = percentile(delays, 99),
          .is_honest = run.start_delay_p99 < kHonestDelay && percentile(delays, 99) < kHonestDelay};
}

CalibrationStep attempt(double requests_per_second, milliseconds chunk_gap, std::uint32_t num_chunks,
                        milliseconds duration) {
  NullServer server(chunk_gap);
  EqualRequests source(nanoseconds(std::llround(1e9 / requests_per_second)), duration, num_chunks);
  const TurnPrompts prompts{.words = [](const auto&, std::size_t) { return std::string("say words"); },
                            .ids = {}};
  const auto run = run_load(settings_for(server, duration), {RequestClass{}}, source, prompts, {});
  return measure(run, server.stop(), duration, chunk_gap * num_chunks);
}

CalibrationStep try_requests(double rate, milliseconds duration) {
  return attempt(rate, milliseconds(0), 1, duration);
}

CalibrationStep try_chunks(double rate, milliseconds duration) {
  return attempt(rate / kChunksPerAnswer, kChunkGap, kChunksPerAnswer, duration);
}

// The highest honest rate. `is_at_least`: the ladder had no further rung, or the
// null server could not send more.
double climb(const Ladder& ladder, CalibrationStep (*try_rate)(double, milliseconds),
             double CalibrationStep::*reached, bool& is_at_least,
             const std::function<void(const CalibrationStep&)>& on_step) {
  double best = 0;
  is_at_least = true;
  for (double rate = ladder.lowest; rate <= ladder.highest; rate *= ladder.factor) {
    CalibrationStep step;
    for (int tries = 0; tries < kTries && !step.is_honest; ++tries) {
      step = try_rate(rate, ladder.step);
      if (on_step) on_step(step);
    }
    is_at_least = step.is_honest;
    if (!step.is_honest) break;
    best = std::max(best, step.*reached);
    if (step.*reached < kEnough * rate) break;
  }
  return best;
}

std::string rate_text(double rate, bool is_at_least) {
  // Two digits: more would not be true the next time.
  const double unit = rate >= 10 ? std::pow(10, std::floor(std::log10(rate)) - 1) : 1;
  return (is_at_least ? "at least " : "up to ") + number_text(std::floor(rate / unit) * unit);
}

}  // namespace

Calibration calibrate(CalibrationEffort effort, const std::function<void(const CalibrationStep&)>& on_step) {
  const bool is_short = effort == CalibrationEffort::kShort;
  const Ladder requests =
      is_short ? Ladder{500, 16'000, 2, milliseconds(120)} : Ladder{500, 64'000, 1.25, milliseconds(400)};
  const Ladder chunks = is_short ? Ladder{2'500, 80'000, 2, milliseconds(150)}
                                 : Ladder{2'500, 640'000, 1.25, milliseconds(400)};
  Calibration result;
  result.requests_per_second = climb(requests, try_requests, &CalibrationStep::requests_per_second,
                                     result.are_requests_at_least, on_step);
  result.chunks_per_second =
      climb(chunks, try_chunks, &CalibrationStep::chunks_per_second, result.are_chunks_at_least, on_step);
  return result;
}

BusiestSecond busiest_second(const RunResult& result) {
  struct Counts {
    double requests = 0;
    double chunks = 0;
  };
  std::map<std::int64_t, Counts> seconds;
  const auto second = [](nanoseconds time) { return time / std::chrono::seconds(1); };
  for (const auto& record : result.records) {
    ++seconds[second(record.sent)].requests;
    if (record.first_token == nanoseconds(0)) continue;
    auto time = record.first_token;
    ++seconds[second(time)].chunks;
    for (const auto gap : record.gaps_us) ++seconds[second(time += microseconds(gap))].chunks;
  }
  BusiestSecond busiest;
  for (const auto& [number, counts] : seconds) {
    busiest.requests = std::max(busiest.requests, counts.requests);
    busiest.chunks = std::max(busiest.chunks, counts.chunks);
  }
  return busiest;
}

std::string calibration_text(const Calibration& calibration) {
  return rate_text(calibration.requests_per_second, calibration.are_requests_at_least) + " requests/s and " +
         rate_text(calibration.chunks_per_second, calibration.are_chunks_at_least) + " chunks/s";
}

}  // namespace troupe::loadgen
