// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/otlp_sink.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <fstream>
#include <stdexcept>

namespace troupe::test {
namespace {

using nlohmann::json;

json plain(const json& value) {
  if (value.contains("stringValue")) return value.at("stringValue");
  if (value.contains("boolValue")) return value.at("boolValue");
  if (value.contains("doubleValue")) return value.at("doubleValue");
  if (value.contains("intValue")) return std::stoll(value.at("intValue").get<std::string>());
  json list = json::array();
  if (value.contains("arrayValue") && value.at("arrayValue").contains("values"))
    for (const auto& element : value.at("arrayValue").at("values")) list.push_back(plain(element));
  return list;
}

std::int64_t time_of(const json& value) { return std::stoll(value.get<std::string>()); }

ReceivedSpan parse_span(const json& span) {
  ReceivedSpan read;
  read.trace_id = span.at("traceId");
  read.span_id = span.at("spanId");
  read.parent_id = span.value("parentSpanId", "");
  read.trace_state = span.value("traceState", "");
  read.name = span.at("name");
  read.kind = span.at("kind");
  read.start = time_of(span.at("startTimeUnixNano"));
  read.end = time_of(span.at("endTimeUnixNano"));
  if (span.contains("status")) {
    read.status = span.at("status").value("code", 0);
    read.status_message = span.at("status").value("message", "");
  }
  for (const auto& attribute : span.value("attributes", json::array()))
    read.attributes[attribute.at("key")] = plain(attribute.at("value"));
  for (const auto& event : span.value("events", json::array()))
    read.events.push_back({event.at("name"), time_of(event.at("timeUnixNano"))});
  for (const auto& link : span.value("links", json::array()))
    read.links.push_back({link.at("traceId"), link.at("spanId")});
  return read;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

bool ReceivedSpan::has_event(const std::string& event) const {
  return std::any_of(events.begin(), events.end(), [&](const auto& e) { return e.name == event; });
}

std::vector<ReceivedSpan> parse_spans(const json& request) {
  std::vector<ReceivedSpan> spans;
  for (const auto& resource : request.at("resourceSpans"))
    for (const auto& scope : resource.at("scopeSpans"))
      for (const auto& span : scope.at("spans")) spans.push_back(parse_span(span));
  return spans;
}

std::vector<ReceivedSpan> read_spans(const std::string& path) {
  std::ifstream file(path);
  std::vector<ReceivedSpan> spans;
  for (std::string line; std::getline(file, line);) {
    const auto more = parse_spans(json::parse(line));
    spans.insert(spans.end(), more.begin(), more.end());
  }
  return spans;
}

OtlpSink::OtlpSink() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain_address = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, plain_address, size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, plain_address, &size) != 0)
    throw std::runtime_error("the sink can't listen");
  port_ = ntohs(address.sin_port);
  accepter_ = std::thread([this] { accept(); });
}

OtlpSink::~OtlpSink() {
  is_over_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  accepter_.join();
  ::close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
  }
  for (auto& thread : threads_) thread.join();
}

void OtlpSink::answer_next(std::vector<SinkAnswer> answers) {
  const std::lock_guard lock(mutex_);
  next_.assign(answers.begin(), answers.end());
}

void OtlpSink::answer_otherwise(SinkAnswer answer) {
  const std::lock_guard lock(mutex_);
  otherwise_ = std::move(answer);
}

std::vector<ReceivedSpan> OtlpSink::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::size_t OtlpSink::num_requests() const {
  const std::lock_guard lock(mutex_);
  return num_requests_;
}

std::string OtlpSink::last_path() const {
  const std::lock_guard lock(mutex_);
  return last_path_;
}

bool OtlpSink::wait_until(const std::function<bool(const std::vector<ReceivedSpan>&)>& is_enough) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return is_enough(spans_); });
}

bool OtlpSink::wait_for_requests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return num_requests_ >= count; });
}

void OtlpSink::accept() {
  for (;;) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 || is_over_) {
      if (connection >= 0) ::close(connection);
      return;
    }
    ++num_connections_;
    const std::lock_guard lock(mutex_);
    open_.insert(connection);
    threads_.emplace_back([this, connection] {
      serve(connection);
      const std::lock_guard closing(mutex_);
      open_.erase(connection);
      ::close(connection);
    });
  }
}

// Requests one after the other until the other side, or the sink, is done.
void OtlpSink::serve(int connection) {
  std::string buffer;
  std::array<char, 16384> bytes{};
  const auto read_more = [&] {
    const auto received = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (received > 0) buffer.append(bytes.data(), static_cast<std::size_t>(received));
    return received > 0;
  };
  for (;;) {
    std::size_t head_end = buffer.find("\r\n\r\n");
    for (; head_end == std::string::npos; head_end = buffer.find("\r\n\r\n"))
      if (!read_more()) return;
    const std::string head = lower(buffer.substr(0, head_end));
    const std::string path = buffer.substr(5, buffer.find(' ', 5) - 5);  // after "POST "
    const auto length_at = head.find("content-length:");
    const std::size_t length = length_at == std::string::npos ? 0 : std::stoul(head.substr(length_at + 15));
    if (head.find("100-continue") != std::string::npos &&
        !send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n"))
      return;
    while (buffer.size() < head_end + 4 + length)
      if (!read_more()) return;
    const std::string body = buffer.substr(head_end + 4, length);
    buffer.erase(0, head_end + 4 + length);
    if (!answer(connection, path, body)) return;
  }
}

// False: the connection is to be closed.
bool OtlpSink::answer(int connection, const std::string& path, const std::string& body) {
  SinkAnswer answer;
  {
    const std::lock_guard lock(mutex_);
    answer = next_.empty() ? otherwise_ : next_.front();
    if (!next_.empty()) next_.pop_front();
    ++num_requests_;
    last_path_ = path;
    const bool is_taken = answer.status == 200 && !answer.says_nothing && !answer.hangs_up;
    if (is_taken) {
      const auto more = parse_spans(json::parse(body));
      spans_.insert(spans_.end(), more.begin(), more.end());
    }
  }
  changed_.notify_all();
  if (answer.hangs_up) return false;
  if (answer.says_nothing) return true;
  if (!answer.raw.empty()) return send_all(connection, answer.raw) && false;
  return send_all(connection, "HTTP/1.1 " + std::to_string(answer.status) + " Status\r\n" + answer.headers +
                                  "Content-Type: application/json\r\nContent-Length: " +
                                  std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body);
}

}  // namespace troupe::test
