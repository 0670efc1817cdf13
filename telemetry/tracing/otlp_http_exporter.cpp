// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_http_exporter.hpp"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include "telemetry/system_random.hpp"
#include "telemetry/tracing/export_complaint.hpp"
#include "telemetry/tracing/otlp_answer.hpp"
#include "telemetry/tracing/otlp_json.hpp"
#include "telemetry/tracing/otlp_protobuf.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLongestPause{30};
constexpr milliseconds kSlice{20};
constexpr std::uint64_t kMaxAnswerBytes = 64 * 1024;

bool may_be_tried_again(unsigned status) {
  return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

// Half of it to all of it, so that servers that lost a collector together do not
// come back together.
milliseconds jittered(milliseconds pause) {
  const auto half = static_cast<std::uint64_t>(pause.count()) / 2;
  return milliseconds(static_cast<std::uint64_t>(pause.count()) - system_random() % (half + 1));
}

using Writer = std::variant<OtlpProtobuf, OtlpJson>;

Writer make_writer(OtlpFormat format, const TraceSource& source) {
  if (format == OtlpFormat::kJson) return OtlpJson(source);
  return OtlpProtobuf(source);
}

std::string host_header(const OtlpEndpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

// The host comes last: nobody's headers take its place.
std::vector<HttpHeader> headers_of(const OtlpEndpoint& endpoint, const OtlpHttpOptions& options) {
  std::vector<HttpHeader> headers = {{"User-Agent", "troupe"}};
  headers.insert(headers.end(), options.headers.begin(), options.headers.end());
  const bool is_json = options.format == OtlpFormat::kJson;
  headers.push_back({"Content-Type", is_json ? "application/json" : "application/x-protobuf"});
  if (options.is_gzipped) headers.push_back({"Content-Encoding", "gzip"});
  headers.push_back({"Host", host_header(endpoint)});
  return headers;
}

std::string text_of(const HttpFailure& failure, const std::string& host) {
  switch (failure.step) {
    case HttpFailure::Step::kResolve: return "can't connect: " + host + ": " + failure.reason;
    case HttpFailure::Step::kConnect:
    case HttpFailure::Step::kHandshake: return "can't connect: " + failure.reason;
    case HttpFailure::Step::kSend: return "sending failed: " + failure.reason;
    case HttpFailure::Step::kReceive: break;
  }
  return "no answer: " + failure.reason;
}

// Throws std::runtime_error if it can't be done for want of memory.
std::string gzipped(std::string_view bytes) {
  constexpr int kGzip = 16;  // added to the window's bits: gzip's head and checksum
  constexpr int kUsualMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, kUsualMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("no memory to compress " + std::to_string(bytes.size()) + " bytes");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // it is only read
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool is_complete = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (!is_complete)
    throw std::runtime_error("a body of " + std::to_string(bytes.size()) + " bytes did not compress");
  return out;
}

}  // namespace

struct OtlpHttpExporter::Implementation {
  Implementation(const OtlpEndpoint& endpoint, const TraceSource& source, OtlpHttpOptions options_)
      : options(std::move(options_)),
        writer(make_writer(options.format, source)),
        host(endpoint.host),
        path(endpoint.path),
        headers(headers_of(endpoint, options)),
        client({.host = endpoint.host,
                .port = endpoint.port,
                .is_https = endpoint.is_https,
                .trusted_certificates = options.trusted_certificates},
               kMaxAnswerBytes),
        complaint(endpoint.origin()) {}

  std::string body_of(const std::vector<SpanTree>& trees) const {
    std::string body = std::visit([&](const auto& format) { return format.request_of(trees); }, writer);
    return options.is_gzipped ? gzipped(body) : body;
  }

  HttpReply attempt(const HttpCall& call, const ExportDeadline& deadline) {
    const bool has_limit = options.attempt_timeout.count() > 0;
    const auto end = has_limit ? Clock::now() + options.attempt_timeout : Clock::time_point::max();
    return client.ask(call, [&] { return std::min(end, deadline.get()); });
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

  HttpReply deliver(std::string body, const ExportDeadline& deadline) {
    const HttpCall call{.method = "POST", .path = path, .headers = headers, .body = std::move(body)};
    milliseconds next_pause = options.first_pause;
    for (int num_attempts = 1;; ++num_attempts) {
      HttpReply answer = attempt(call, deadline);
      if (!may_be_tried_again(answer.status) || num_attempts == options.max_attempts) return answer;
      const milliseconds asked = std::min<milliseconds>(answer.retry_after, kLongestPause);
      if (!pause(std::max(jittered(next_pause), asked), deadline)) return answer;
      next_pause *= 2;
    }
  }

  const OtlpHttpOptions options;
  const Writer writer;
  const std::string host, path;
  const std::vector<HttpHeader> headers;
  HttpClient client;
  ExportComplaint complaint;
};

OtlpHttpExporter::OtlpHttpExporter(OtlpEndpoint endpoint, const TraceSource& source, OtlpHttpOptions options)
    : implementation_(std::make_unique<Implementation>(endpoint, source, std::move(options))) {}
OtlpHttpExporter::~OtlpHttpExporter() = default;

std::size_t OtlpHttpExporter::send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) {
  Implementation& self = *implementation_;
  const std::size_t num_spans = count_spans(trees);
  try {
    const HttpReply answer = self.deliver(self.body_of(trees), deadline);
    if (answer.status < 200 || answer.status > 299) {
      self.complaint.note_failure(answer.status == 0 ? text_of(answer.failure, self.host)
                                                     : "status " + std::to_string(answer.status));
      return 0;
    }
    const std::size_t num_rejected = std::min<std::size_t>(count_rejected_spans(answer.body), num_spans);
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
