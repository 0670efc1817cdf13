// SPDX-License-Identifier: Apache-2.0
#include "app/trace/timeline.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "telemetry/quoted_text.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

// The two groups of tracks; viewers call them processes.
constexpr int kWorkers = 1;
constexpr int kRequests = 2;
constexpr std::size_t kMaxArrows = 200'000;

class TimelineWriter {
 public:
  explicit TimelineWriter(const TracedRun& run) : run_(run) {
    for (const auto& request : run.requests) origin_ = std::min(origin_, request.root->start);
    for (const auto* iteration : run.iterations) origin_ = std::min(origin_, iteration->start);
  }

  Timeline write() {
    timeline_.json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    name_track(kWorkers, 0, "process_name", "workers");
    name_track(kRequests, 0, "process_name", "requests");
    write_requests();
    write_iterations();
    timeline_.json += "\n]}\n";
    return std::move(timeline_);
  }

 private:
  struct Place {
    int lane = 0;
    std::int64_t start = 0, end = 0;
  };

  // Each request goes into the first lane that is free when it begins.
  void write_requests() {
    std::vector<std::int64_t> free_from;
    for (const auto& request : run_.requests) {
      const TraceSpan& root = *request.root;
      const auto free = std::find_if(free_from.begin(), free_from.end(),
                                     [&](std::int64_t time) { return time <= root.start; });
      const int lane = static_cast<int>(free - free_from.begin()) + 1;
      if (free == free_from.end()) {
        free_from.push_back(root.end);
        name_track(kRequests, lane, "thread_name", "requests " + std::to_string(lane));
      } else {
        *free = root.end;
      }
      places_[{root.trace_id, root.span_id}] = {.lane = lane, .start = root.start, .end = root.end};
      write_slice(root, kRequests, lane);
      for (const auto* phase : request.phases) write_slice(*phase, kRequests, lane);
      for (const auto& event : root.events) write_instant(event, lane);
    }
    timeline_.num_lanes = free_from.size();
  }

  void write_iterations() {
    std::map<std::pair<std::string, std::string>, int> tracks;  // process and epoch
    for (const auto* iteration : run_.iterations) {
      const std::string epoch = shown(iteration->number(std::string(semconv::kEpoch)));
      const auto [track, is_new] =
          tracks.try_emplace(std::pair(iteration->instance, epoch), static_cast<int>(tracks.size()) + 1);
      if (is_new)
        name_track(kWorkers, track->second, "thread_name",
                   "worker " + shown(iteration->number(std::string(semconv::kWorker))) + ", epoch " + epoch +
                       ", of " + iteration->instance);
      write_slice(*iteration, kWorkers, track->second);
      for (const auto& link : iteration->links) write_arrow(link, *iteration, track->second);
      write_counter(*iteration, "running", semconv::kNumRunning);
      write_counter(*iteration, "waiting", semconv::kNumWaiting);
      write_counter(*iteration, "batch tokens", semconv::kBatchTokens);
    }
    timeline_.num_workers = tracks.size();
  }

  void name_track(int group, int track, const char* what, const std::string& name) {
    begin_event("M", what, group, track);
    timeline_.json += ",\"args\":{\"name\":";
    append_quoted(timeline_.json, name);
    timeline_.json += "}}";
  }

  void write_slice(const TraceSpan& span, int group, int track) {
    begin_event("X", span.name, group, track);
    append_time("ts", span.start - origin_);
    append_time("dur", span.end - span.start);
    std::string& json = timeline_.json;
    json += ",\"args\":{\"trace_id\":";
    append_quoted(json, span.trace_id);
    for (const auto& [key, text] : span.texts) {
      json += ',';
      append_quoted(json, key);
      json += ':';
      append_quoted(json, text);
    }
    for (const auto& [key, number] : span.numbers) {
      json += ',';
      append_quoted(json, key);
      json += ':' + shown(number);
    }
    json += "}}";
  }

  void write_instant(const TraceSpan::Event& event, int lane) {
    begin_event("i", event.name, kRequests, lane);
    append_time("ts", std::max<std::int64_t>(event.time - origin_, 0));
    timeline_.json += ",\"s\":\"t\"}";
  }

  // From the phase the request was in when the batch began.
  void write_arrow(const TraceSpan::Link& link, const TraceSpan& iteration, int track) {
    const auto place = places_.find({link.trace_id, link.span_id});
    if (place == places_.end()) return;  // it was sampled, and its spans are not in this file
    const bool is_within = iteration.start >= place->second.start && iteration.start < place->second.end;
    if (!is_within) return;  // a step that was under way when the request ended
    if (timeline_.num_arrows >= kMaxArrows) {
      timeline_.num_arrows_left_out += 1;
      return;
    }
    timeline_.num_arrows += 1;
    const std::string id = ",\"cat\":\"batch\",\"id\":" + std::to_string(timeline_.num_arrows);
    begin_event("s", "takes part", kRequests, place->second.lane);
    append_time("ts", iteration.start - origin_);
    timeline_.json += id + "}";
    begin_event("f", "takes part", kWorkers, track);
    append_time("ts", iteration.start - origin_);
    timeline_.json += id + ",\"bp\":\"e\"}";
  }

  void write_counter(const TraceSpan& iteration, const char* name, std::string_view key) {
    const auto number = iteration.numbers.find(std::string(key));
    if (number == iteration.numbers.end()) return;
    begin_event("C", name, kWorkers, 0);
    append_time("ts", iteration.end - origin_);
    timeline_.json += ",\"args\":{\"value\":" + shown(number->second) + "}}";
  }

  void begin_event(const char* phase, std::string_view name, int group, int track) {
    std::string& json = timeline_.json;
    json += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    json.append("{\"ph\":\"").append(phase).append("\",\"name\":");
    append_quoted(json, name);
    json += ",\"pid\":" + std::to_string(group) + ",\"tid\":" + std::to_string(track);
  }

  // Microseconds, with all nanoseconds: what nests must go on nesting.
  void append_time(const char* name, std::int64_t nanoseconds) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), ",\"%s\":%lld.%03lld", name,
                  static_cast<long long>(nanoseconds / 1000), static_cast<long long>(nanoseconds % 1000));
    timeline_.json += text.data();
  }

  static std::string shown(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.10g", number);
    const std::string_view view = text.data();
    return view.find_first_not_of("0123456789+-.e") == std::string_view::npos ? std::string(view) : "null";
  }

  const TracedRun& run_;
  std::int64_t origin_ = INT64_MAX;  // time zero: the first begin of all
  Timeline timeline_;
  std::map<std::pair<std::string, std::string>, Place> places_;  // of requests, by their ids
  bool is_first_ = true;
};

}  // namespace

Timeline make_timeline(const TracedRun& run) { return TimelineWriter(run).write(); }

}  // namespace troupe
