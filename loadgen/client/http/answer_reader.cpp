// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/answer_reader.hpp"

#include <boost/beast/http/basic_parser.hpp>

#include "loadgen/client/http/sse_parser.hpp"

namespace troupe::loadgen {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastString = boost::beast::string_view;

constexpr std::uint32_t kMaxHeadBytes = 32 * 1024;
constexpr std::string_view kHeadBegin = "HTTP/";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kMaxEventBytes = 1 << 20;
constexpr std::size_t kMaxWholeBytes = 16 << 20;
constexpr std::size_t kMaxErrorBytes = 64 * 1024;

std::string_view view(BeastString text) { return {text.data(), text.size()}; }

std::uint32_t microseconds(std::chrono::steady_clock::duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, UINT32_MAX));
}

}  // namespace

class AnswerReader::Parser final : public http::basic_parser<false> {
 public:
  explicit Parser(bool is_streamed) : is_streamed_(is_streamed), events_(kMaxEventBytes) {
    eager(true);
    header_limit(kMaxHeadBytes);
    body_limit(boost::none);  // streams have no size; what is kept of others is bounded here
  }

  std::size_t feed(std::string_view bytes, SteadyTime now) {
    if (is_done()) return 0;
    now_ = now;
    error_code error;
    if (!is_header_done()) {
      // Beast judges a head's beginning in the first piece and behind that waits for its end. It gets a head
      // whole, so the verdict is the same however the bytes are cut.
      const bool begins_well = bytes.substr(0, kHeadBegin.size()) == kHeadBegin.substr(0, bytes.size());
      const auto end = bytes.find(kHeadEnd);
      const auto head_size = end == std::string_view::npos ? bytes.size() : end + kHeadEnd.size();
      const bool is_too_long = head_size > kMaxHeadBytes;
      if (begins_well && !is_too_long && end == std::string_view::npos) return 0;
      if (!begins_well || is_too_long) {
        error = begins_well ? http::error::header_limit : http::error::bad_version;
        give_up(Outcome::kBroken, "the answer is not HTTP: " + error.message(), now);
        return 0;
      }
    }
    const auto taken = put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    if (error && error != http::error::need_more)
      give_up(Outcome::kBroken, "the answer is not HTTP: " + error.message(), now);
    return taken;
  }

  void end(std::string_view error, SteadyTime now) {
    now_ = now;
    if (is_header_done() && error.empty()) {
      error_code ended;
      put_eof(ended);  // the proper end of a body without length
    }
    if (has_verdict_) return;
    const std::string what(error.empty() ? "the server closed the connection" : error);
    if (!is_header_done())
      give_up(Outcome::kUnreachable, what + " before it answered", now);
    else
      give_up(Outcome::kBroken, what + " in mid-answer", now);
  }

  void give_up(Outcome outcome, std::string_view error, SteadyTime now) {
    if (has_verdict_) return;
    has_verdict_ = true;
    answer_.outcome = outcome;
    if (!is_header_done()) answer_.status = 0;  // its line may have come, or not, by how the bytes were cut
    answer_.error = error;
    answer_.finished = now;
  }

  bool has_verdict() const { return has_verdict_; }
  bool is_complete() const { return has_verdict_ && answer_.outcome == Outcome::kCompleted; }
  Answer& answer() { return answer_; }

 protected:
  void on_request_impl(http::verb, BeastString, BeastString, int, error_code&) override {}

  void on_response_impl(int code, BeastString, int, error_code&) override {
    answer_.status = static_cast<std::uint16_t>(code);
  }

  void on_field_impl(http::field name, BeastString, BeastString value, error_code&) override {
    if (name == http::field::content_type) content_type_ = view(value);
    if (name == http::field::retry_after) retry_after_ = view(value);
  }

  void on_header_impl(error_code&) override {
    const bool has_events = content_type_.starts_with("text/event-stream");
    if (is_success() && is_streamed_ && has_events)
      body_ = Body::kEvents;
    else if (is_success() && !is_streamed_)
      body_ = Body::kWhole;
    else
      body_ = Body::kError;
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, BeastString, error_code&) override {}

  std::size_t on_body_impl(BeastString bytes, error_code&) override { return take_body(view(bytes)); }
  std::size_t on_chunk_body_impl(std::uint64_t, BeastString bytes, error_code&) override {
    return take_body(view(bytes));
  }

  void on_finish_impl(error_code&) override {
    if (has_verdict_) return;
    if (body_ == Body::kEvents)
      judge_stream();
    else if (body_ == Body::kWhole)
      judge_whole();
    else
      judge_error();
  }

 private:
  enum class Body : std::uint8_t { kEvents, kWhole, kError };

  bool is_success() const { return answer_.status / 100 == 2; }

  std::size_t take_body(std::string_view bytes) {
    if (has_verdict_) return bytes.size();  // what follows [DONE]
    if (body_ == Body::kEvents) {
      const bool fits = events_.feed(bytes, [this](const SseEvent& event) { handle(event); });
      if (!fits)
        give_up(Outcome::kBroken, "an event is longer than " + std::to_string(kMaxEventBytes) + " bytes",
                now_);
    } else {
      const auto limit = body_ == Body::kWhole ? kMaxWholeBytes : kMaxErrorBytes;
      kept_ += bytes.substr(0, limit - std::min(limit, kept_.size()));
      if (body_ == Body::kWhole && kept_.size() == limit)
        give_up(Outcome::kBroken, "the answer is longer than " + std::to_string(limit) + " bytes", now_);
    }
    return bytes.size();
  }

  void handle(const SseEvent& event) {
    if (has_verdict_) return;
    if (event.data.starts_with("[DONE]")) return judge_stream();
    if (event.name == "error")
      return give_up(Outcome::kBroken, "error event: " + error_text(event.data), now_);
    switch (chunks_.add(answer_.content, event.data)) {
      case ChunkKind::kText: return note_output();
      case ChunkKind::kOther: return;
      case ChunkKind::kError: return give_up(Outcome::kBroken, "error event: " + answer_.content.error, now_);
      case ChunkKind::kMalformed:
        return give_up(Outcome::kBroken, "expected a chunk in JSON, got '" + error_text(event.data) + "'",
                       now_);
    }
  }

  void note_output() {
    if (answer_.num_chunks++ == 0)
      answer_.first_token = now_;
    else
      answer_.gaps_us.push_back(microseconds(now_ - answer_.last_token));
    answer_.last_token = now_;
  }

  void judge_stream() {
    if (answer_.content.finish_reason.empty())
      return give_up(Outcome::kBroken, "the stream ended without a finish reason", now_);
    give_up(Outcome::kCompleted, "", now_);
  }

  void judge_whole() {
    switch (add_whole_answer(answer_.content, kept_)) {
      case ChunkKind::kError:
        return give_up(Outcome::kBroken, "error in an answer with status 200: " + answer_.content.error,
                       now_);
      case ChunkKind::kMalformed:
        return give_up(Outcome::kBroken, "expected an answer in JSON, got '" + error_text(kept_) + "'", now_);
      default: break;
    }
    if (answer_.content.finish_reason.empty())
      return give_up(Outcome::kBroken, "the answer has no finish reason", now_);
    note_output();
    give_up(Outcome::kCompleted, "", now_);
  }

  void judge_error() {
    const auto text = error_text(kept_);
    if (is_success())
      return give_up(Outcome::kBroken,
                     "expected text/event-stream, got '" + error_text(content_type_) + "': " + text, now_);
    auto error = "HTTP " + std::to_string(answer_.status);
    if (!text.empty()) error += ": " + text;
    if (!retry_after_.empty()) error += " (Retry-After: " + error_text(retry_after_) + ")";
    const bool is_overload = answer_.status == 429 || answer_.status == 503;
    give_up(is_overload ? Outcome::kRefused : Outcome::kRejected, error, now_);
  }

  const bool is_streamed_;
  SseParser events_;
  ChunkReader chunks_;
  SteadyTime now_{};
  Body body_ = Body::kError;
  std::string content_type_;
  std::string retry_after_;
  std::string kept_;  // a whole body, or what an error says
  bool has_verdict_ = false;
  Answer answer_;
};

AnswerReader::AnswerReader(bool is_streamed) : parser_(std::make_unique<Parser>(is_streamed)) {}
AnswerReader::~AnswerReader() = default;

std::size_t AnswerReader::feed(std::string_view bytes, SteadyTime now) { return parser_->feed(bytes, now); }
void AnswerReader::end(std::string_view error, SteadyTime now) { parser_->end(error, now); }
void AnswerReader::give_up(Outcome outcome, std::string_view error, SteadyTime now) {
  parser_->give_up(outcome, error, now);
}
bool AnswerReader::has_verdict() const { return parser_->has_verdict(); }
bool AnswerReader::is_complete() const { return parser_->is_complete(); }
bool AnswerReader::is_at_end() const { return parser_->is_done(); }
bool AnswerReader::is_connection_kept() const { return parser_->is_done() && parser_->keep_alive(); }
Answer AnswerReader::take_answer() { return std::move(parser_->answer()); }

}  // namespace troupe::loadgen
