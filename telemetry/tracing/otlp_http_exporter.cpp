// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_http_exporter.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "telemetry/tracing/export_complaint.hpp"
#include "telemetry/tracing/http_poster.hpp"
#include "telemetry/tracing/otlp_json.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLongestPause{30};
constexpr milliseconds kSlice{20};

bool may_be_tried_again(unsigned status) {
  return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

// {"partialSuccess":{"rejectedSpans":"3"}}: taken, but for some.
std::size_t count_rejected(const std::string& body) {
  const auto parsed = nlohmann::json::parse(body, nullptr, false);
  const auto at = nlohmann::json::json_pointer("/partialSuccess/rejectedSpans");
  if (!parsed.is_object() || !parsed.contains(at)) return 0;
  const auto& rejected = parsed.at(at);
  if (rejected.is_number_unsigned()) return rejected.get<std::size_t>();
  if (!rejected.is_string()) return 0;
  return static_cast<std::size_t>(std::strtoull(rejected.get<std::string>().c_str(), nullptr, 10));
}

}  // namespace

struct OtlpHttpExporter::Implementation {
  Implementation(OtlpEndpoint endpoint, const TraceSource& source, OtlpHttpOptions options_)
      : options(options_),
        json(source),
        poster(endpoint.host, endpoint.port, endpoint.path),
        complaint(endpoint.url) {}

  PostedAnswer attempt(const std::string& body, const ExportDeadline& deadline) {
    const auto end = Clock::now() + options.attempt_timeout;
    return poster.post(body, [&] { return std::min(end, deadline.get()); });
  }

  // False if the deadline came first.
  static bool pause(milliseconds time, const ExportDeadline& deadline) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
      if (Clock::now() >= deadline.get()) return false;
      std::this_thread::sleep_for(kSlice);
    }
    return true;
  }

  PostedAnswer deliver(const std::string& body, const ExportDeadline& deadline) {
    milliseconds next_pause = options.first_pause;
    for (int num_attempts = 1;; ++num_attempts) {
      PostedAnswer answer = attempt(body, deadline);
      if (!may_be_tried_again(answer.status) || num_attempts == options.max_attempts) return answer;
      const milliseconds asked =
          std::min<milliseconds>(std::chrono::seconds(answer.retry_after_s), kLongestPause);
      if (!pause(std::max(next_pause, asked), deadline)) return answer;
      next_pause *= 2;
    }
  }

  const OtlpHttpOptions options;
  const OtlpJson json;
  HttpPoster poster;
  ExportComplaint complaint;
};

OtlpHttpExporter::OtlpHttpExporter(OtlpEndpoint endpoint, const TraceSource& source, OtlpHttpOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(endpoint), source, options)) {}
OtlpHttpExporter::~OtlpHttpExporter() = default;

std::size_t OtlpHttpExporter::send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) {
  Implementation& self = *implementation_;
  const std::size_t num_spans = count_spans(trees);
  try {
    const PostedAnswer answer = self.deliver(self.json.request_of(trees), deadline);
    if (answer.status < 200 || answer.status > 299) {
      self.complaint.note_failure(answer.status == 0 ? answer.error
                                                     : "status " + std::to_string(answer.status));
      return 0;
    }
    const std::size_t num_rejected = std::min(count_rejected(answer.body), num_spans);
    if (num_rejected > 0) {
      self.complaint.note_failure("the collector rejected " + std::to_string(num_rejected) + " spans");
    } else {
      self.complaint.note_success();
    }
    return num_spans - num_rejected;
  } catch (const std::exception& error) {
    self.complaint.note_failure(error.what());
    return 0;
  }
}

}  // namespace troupe
