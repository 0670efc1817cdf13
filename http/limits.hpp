// SPDX-License-Identifier: Apache-2.0
// Every bound the HTTP side puts on what a client may send, hold or wait for,
// in one table: value, unit and why. Code reads the fields of Limits; tests
// and the documentation walk kLimitTable. Times are milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace troupe {

struct Limits {
  // one request's bytes
  std::uint64_t max_request_line_bytes = 4 * 1024;
  std::uint64_t max_header_bytes = 8 * 1024;
  std::uint64_t max_header_fields = 64;
  std::uint64_t max_body_bytes = 1024 * 1024;
  std::uint64_t max_wire_overhead_bytes = 64 * 1024;
  std::uint64_t max_read_ahead_bytes = 64 * 1024;
  // one request's time
  std::uint64_t header_timeout_ms = 10'000;
  std::uint64_t body_timeout_ms = 30'000;
  std::uint64_t min_body_bytes_per_second = 1024;
  std::uint64_t idle_timeout_ms = 60'000;
  std::uint64_t linger_timeout_ms = 1'000;
  // connections
  std::uint64_t max_connections = 12'288;
  std::uint64_t max_connections_per_address = 256;
  std::uint64_t reserved_connections = 16;
  std::uint64_t reserve_timeout_ms = 2'000;
  std::uint64_t metrics_connections = 8;
  std::uint64_t max_requests_per_connection = 1'000;
  std::uint64_t listen_backlog = 1'024;
  std::uint64_t max_descriptor_percent = 90;
  // one JSON document
  std::uint64_t max_json_depth = 32;
  std::uint64_t max_json_values = 100'000;
  std::uint64_t max_messages = 1'024;
  std::uint64_t max_content_parts = 64;
  std::uint64_t max_tools = 128;
  std::uint64_t max_stop_strings = 4;
  std::uint64_t max_stop_string_bytes = 256;
  std::uint64_t max_stop_token_ids = 64;
  std::uint64_t max_embedding_inputs = 2'048;
  std::uint64_t max_pair_bytes = 8 * 1024 * 1024;
  std::uint64_t max_choices = 128;
  std::uint64_t max_top_k = 1'000'000;
  std::uint64_t max_request_id_bytes = 64;
  // one SSE stream
  std::uint64_t heartbeat_ms = 15'000;
  std::uint64_t max_stream_buffer_bytes = 256 * 1024;
  std::uint64_t stall_timeout_ms = 5'000;
  std::uint64_t send_buffer_bytes = 64 * 1024;
  std::uint64_t tcp_user_timeout_ms = 15'000;
  std::uint64_t keepalive_idle_s = 5;
  std::uint64_t keepalive_interval_s = 3;
  std::uint64_t keepalive_probes = 3;
  // answers that go on without their clients
  std::uint64_t max_detached_answers = 1'000;
  std::uint64_t max_detached_bytes = 256 * 1024 * 1024;
  std::uint64_t detached_keep_ms = 300'000;
};

struct LimitEntry {
  std::string_view name;  // as in the configuration and the documentation
  std::uint64_t Limits::*value;
  std::string_view unit;
  std::string_view reason;
};

inline constexpr std::array kLimitTable = {
    LimitEntry{"max_request_line_bytes", &Limits::max_request_line_bytes, "bytes",
               "our longest path has 40; more is an attack or a mistake"},
    LimitEntry{"max_header_bytes", &Limits::max_header_bytes, "bytes",
               "what Beast and nginx allow; a huge header cost others their server"},
    LimitEntry{"max_header_fields", &Limits::max_header_fields, "fields",
               "1,500 tiny fields fit into 8 KB and cost far more than their bytes"},
    LimitEntry{"max_body_bytes", &Limits::max_body_bytes, "bytes",
               "nginx's default; a full context of text is a fraction of it"},
    LimitEntry{"max_wire_overhead_bytes", &Limits::max_wire_overhead_bytes, "bytes",
               "chunk framing and extensions beyond the body; unbounded in Beast: 200 MB for 100 KB"},
    LimitEntry{"max_read_ahead_bytes", &Limits::max_read_ahead_bytes, "bytes",
               "pipelined requests kept while one is being answered"},
    LimitEntry{"header_timeout_ms", &Limits::header_timeout_ms, "ms",
               "a slow header holds a connection and nothing else does work for it"},
    LimitEntry{"body_timeout_ms", &Limits::body_timeout_ms, "ms", "1 MB in 30 s is a bad telephone line"},
    LimitEntry{"min_body_bytes_per_second", &Limits::min_body_bytes_per_second, "bytes/s",
               "a trickled body is found out before its time is up"},
    LimitEntry{"idle_timeout_ms", &Limits::idle_timeout_ms, "ms",
               "keep-alive between requests; nginx allows 60 to 75 s"},
    LimitEntry{"linger_timeout_ms", &Limits::linger_timeout_ms, "ms",
               "read on after a last answer, else a reset may destroy it on its way"},
    LimitEntry{
        "max_connections", &Limits::max_connections, "connections",
        "10,000 idle beside 2,000 streams; idle 5 KB each, 19 KB with TLS: 233 MB; a TLS hello may be 16 KB"},
    LimitEntry{
        "max_connections_per_address", &Limits::max_connections_per_address, "connections",
        "one machine (of IPv6 a /64) can't take all; loopback is exempt: proxies and load tests live there"},
    LimitEntry{"reserved_connections", &Limits::reserved_connections, "connections",
               "beyond the others, for probes: a full server is not a dead one"},
    LimitEntry{"reserve_timeout_ms", &Limits::reserve_timeout_ms, "ms",
               "a probe asks at once; what says nothing makes room"},
    LimitEntry{"metrics_connections", &Limits::metrics_connections, "connections",
               "on the port for metrics: a few scrapers, whatever clients do; the quietest makes room"},
    LimitEntry{"max_requests_per_connection", &Limits::max_requests_per_connection, "requests",
               "lets load balance again, bounds what one connection accumulates"},
    LimitEntry{"listen_backlog", &Limits::listen_backlog, "connections",
               "a burst of clients is not refused while one loop turn runs"},
    LimitEntry{"max_descriptor_percent", &Limits::max_descriptor_percent, "%",
               "of the limit for the process; the rest is for the store, pages and logs"},
    LimitEntry{"max_json_depth", &Limits::max_json_depth, "levels",
               "Boost.JSON's own; deep nesting overflowed other servers' stacks"},
    LimitEntry{"max_json_values", &Limits::max_json_values, "values",
               "a value costs 24 bytes and more for 2 bytes of text"},
    LimitEntry{"max_messages", &Limits::max_messages, "messages", "more turns than any context holds"},
    LimitEntry{"max_content_parts", &Limits::max_content_parts, "parts", "text parts of one message"},
    LimitEntry{"max_tools", &Limits::max_tools, "tools",
               "OpenAI's; in one request, and calls in one message"},
    LimitEntry{"max_stop_strings", &Limits::max_stop_strings, "strings", "OpenAI's own limit"},
    LimitEntry{"max_stop_string_bytes", &Limits::max_stop_string_bytes, "bytes",
               "text is held back as long as it may still become a stop string"},
    LimitEntry{"max_stop_token_ids", &Limits::max_stop_token_ids, "ids",
               "compared with every token of the sequence"},
    LimitEntry{"max_embedding_inputs", &Limits::max_embedding_inputs, "inputs",
               "OpenAI's; their vectors are kept until the client has taken them"},
    LimitEntry{"max_pair_bytes", &Limits::max_pair_bytes, "bytes",
               "a query of the largest body and 2,048 documents would be gigabytes to encode"},
    LimitEntry{"max_choices", &Limits::max_choices, "answers",
               "OpenAI's n; prompts times n of one request, each a sequence of its own"},
    LimitEntry{"max_top_k", &Limits::max_top_k, "tokens", "more than any vocabulary: means all"},
    LimitEntry{"max_request_id_bytes", &Limits::max_request_id_bytes, "bytes",
               "a client's id goes into every log line of its request"},
    LimitEntry{"heartbeat_ms", &Limits::heartbeat_ms, "ms",
               "proxies cut silent streams after 60 s; without data TCP notices no dead peer"},
    LimitEntry{"max_stream_buffer_bytes", &Limits::max_stream_buffer_bytes, "bytes",
               "a reader this far behind is gone"},
    LimitEntry{"stall_timeout_ms", &Limits::stall_timeout_ms, "ms",
               "a paused sequence holds KV pages that others wait for"},
    LimitEntry{"send_buffer_bytes", &Limits::send_buffer_bytes, "bytes",
               "the kernel swallows 3.8 MB for a reader that never reads: no back-pressure"},
    LimitEntry{
        "tcp_user_timeout_ms", &Limits::tcp_user_timeout_ms, "ms",
        "a vanished client is else found after many minutes; behind it one lost probe ends a connection"},
    LimitEntry{"keepalive_idle_s", &Limits::keepalive_idle_s, "s",
               "early enough that all probes come before the user timeout, which ends them"},
    LimitEntry{"keepalive_interval_s", &Limits::keepalive_interval_s, "s",
               "with the probes below: a dead peer is known within 17 s"},
    LimitEntry{"keepalive_probes", &Limits::keepalive_probes, "probes",
               "one lost packet is no reason to hang up"},
    LimitEntry{"max_detached_answers", &Limits::max_detached_answers, "answers",
               "in the background, or streams that can be taken up again"},
    LimitEntry{"max_detached_bytes", &Limits::max_detached_bytes, "bytes",
               "of their events; the oldest that have ended make room"},
    LimitEntry{"detached_keep_ms", &Limits::detached_keep_ms, "ms",
               "after its end, or since a stream's last client went; nobody comes back later"},
};

}  // namespace troupe
